// @ts-check
// Parts of an evidence file that the Proof page and verifier.html show alike.
import { html } from '../vendor/preact-htm.js';
import { JSONView } from './json_view.js';
import { Text } from './text.js';

/**
 * The content of a record, with no verdict on it.
 * @param {{companyId: string, log: LogName, record: LogRecord,
 *   signer: {fingerprint: string}, agentKey?: string}} props
 */
export function Content({ companyId, log, record, signer, agentKey }) {
  return html`
    <section class="card long">
      <h2>The record</h2>
      <dl class="facts">
        <dt>company</dt><dd>${companyId}</dd>
        <dt>log and index</dt><dd>${log}, ${record.index}</dd>
        <dt>time</dt><dd>${record.timestamp}, by the service’s clock</dd>
        <dt>agent</dt><dd><${Text} of=${record.agentId} /></dd>
        <dt>action</dt><dd><${Text} of=${record.actionType} /></dd>
        ${record.delegation && html`<dt>on behalf of</dt>
        <dd>${record.delegation.chain.map((id) => html`<div><code><${Text} of=${id} /></code></div>`)}</dd>`}
        <dt>hash</dt><dd><code>${record.hash}</code></dd>
        <dt>signed by</dt><dd><code>${signer.fingerprint}</code></dd>
        ${agentKey && html`<dt>signed with the agent’s key</dt><dd><${Text} of=${agentKey} /></dd>`}
      </dl>
      <${JSONView} node=${record.inner} source=${record.source} what="Payload" />
    </section>`;
}

/**
 * Who did what, on whose behalf and under which right: what summary of lib/evidence/summary.js
 * returns, in the words of every checker.
 * @param {{lines: [string, string][]}} props
 */
export const Summary = ({ lines }) => html`
  <section class="card long" data-summary>
    <h2>What it says</h2>
    <dl class="facts">
      ${lines.map(([name, text]) => html`<dt>${name}</dt><dd><${Text} of=${text} /></dd>`)}
    </dl>
  </section>`;

/**
 * Control records in their order, as eventOf gives them.
 * @param {{title: string, lead: Child, events: ControlEvent[]}} props
 */
export function Events({ title, lead, events }) {
  return html`
    <section class="card long">
      <h2>${title}</h2>
      <p class="muted small">${lead}</p>
      ${
        events.length
          ? html`
        <ol class="words">${events.map(
          (e) => html`
          <li value=${e.index}><strong><${Text} of=${e.action} /></strong>, <code><${Text} of=${e.subject} /></code>
            , at <span class="nowrap">${e.timestamp}</span>
            , by <code><${Text} of=${e.by || 'the service itself'} /></code></li>`,
        )}</ol>`
          : html`<p>None.</p>`
      }
    </section>`;
}

/** @param {{title: string, lead?: string, list: string[]}} props */
export const Words = ({ title, lead, list }) => html`
  <section class="card long">
    <h2>${title}</h2>
    ${lead && html`<p class="muted small">${lead}</p>`}
    <ul class="words">${list.map((words) => html`<li><${Text} of=${words} /></li>`)}</ul>
  </section>`;

/**
 * The content of a file that holds, apart from its record: found is what check of
 * lib/evidence/check.js returns.
 * @param {{found: Pick<EvidenceCheck, 'file' | 'allowed' | 'ofPassport'>}} props
 */
export const Beside = ({ found: { file, allowed, ofPassport } }) => html`
  ${
    allowed &&
    html`<${Events} title="Authorization" events=${allowed}
    lead="Control records about the agent, in log order, each with its index." />`
  }
  ${
    ofPassport &&
    html`<${Events} title="The passport ${file.passport?.jti}" events=${ofPassport}
    lead="${file.status?.status} at ${file.status?.checkedAt}, signed by the company’s latest key. Its control
      records:" />`
  }`;
