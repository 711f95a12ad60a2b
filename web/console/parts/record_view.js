// One record with everything that is in it, and its check step by step.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { localTime } from '../core/format.js';
import { href } from '../core/router.js';
import { canonical } from '../lib/jcs.js';
import { checkRecord, delegationOf } from '../lib/record.js';
import { Badge, Notice, Value } from './basic.js';
import { JSONView } from './json_view.js';
import { Principals } from './principals.js';

function Step({ number, title, ok, children }) {
  return html`
    <li class="check-step">
      <div class="card-head"><h4><span class="step-number">${number}</span> ${title}</h4>${ok !== undefined && html`<${Badge} ok=${ok}>${ok ? 'matches' : 'does not match'}<//>`}</div>
      ${children}
    </li>`;
}

function canonicalOf(node) {
  try {
    return canonical(node);
  } catch (err) {
    return `has no canonical form: ${err.message}`;
  }
}

/** Every value on the way from the content to the verdict, computed in this page. */
export function CheckSteps({ record, companyKey }) {
  const [result, setResult] = useState(null);
  useEffect(() => {
    let current = true;
    setResult(null);
    checkRecord(record, companyKey.prepared).then((r) => current && setResult(r));
    return () => { current = false; };
  }, [record, companyKey]);
  if (!result) return html`<p class="muted">Computing …</p>`;
  return html`
    <div class="stack" data-check=${result.ok ? 'ok' : 'bad'}>
      <${Notice} kind=${result.ok ? 'ok' : 'bad'}>${result.ok ? 'This record is exactly what the company signed.' : `This record fails: ${result.reason}.`}<//>
      <ol class="stack">
        <${Step} number="1" title="Canonical payload (RFC 8785)"><pre class="code" tabindex="0" aria-label="Canonical payload">${canonicalOf(record.payload)}</pre><//>
        <${Step} number="2" title="Preimage: index | timestamp | payload${record.delegation ? ' | delegation' : ''}"><pre class="code" tabindex="0" aria-label="Hash preimage">${result.preimage}</pre><//>
        <${Step} number="3" title="SHA-256 of the preimage" ok=${result.hashOK}>
          <dl class="facts"><dt>computed</dt><dd><code>${result.computed}</code></dd><dt>recorded</dt><dd><code>${record.hash}</code></dd></dl>
        <//>
        <${Step} number="4" title="Ed25519 signature over the 32 bytes of the hash" ok=${result.signatureOK}>
          <dl class="facts"><dt>signature</dt><dd><code>${record.signature}</code></dd><dt>key</dt><dd><code>${companyKey.fingerprint}</code></dd></dl>
        <//>
      </ol>
    </div>`;
}

export function RecordView({ record, companyKey }) {
  const [checking, setChecking] = useState(false);
  const delegation = delegationOf(record);
  return html`
    <dl class="facts">
      <dt>agent</dt><dd>${record.agentId}</dd>
      <dt>action</dt><dd>${record.actionType}</dd>
      <dt>time</dt><dd>${localTime(record.timestamp)} <span class="muted">(${record.timestamp})</span></dd>
      <dt>company</dt><dd>${record.companyId}</dd>
    </dl>
    <section class="stack tight"><h3>Payload</h3>
      ${record.inner ? html`<${JSONView} node=${record.inner} source=${record.source} what="payload" />` : html`<p class="muted">none</p>`}
    </section>
    ${delegation && html`
      <section class="stack"><h3>Delegation</h3><${Principals} chain=${delegation.chain} />
        <p class="small muted">Token <code>${delegation.tokenId}</code>. A delegation proves that these principals were asserted, not that anyone approved the action.</p>
      </section>`}
    <section class="stack tight"><h3>Hash</h3><${Value} value=${record.hash} what="hash" /></section>
    <section class="stack tight"><h3>Signature</h3><${Value} value=${record.signature} what="signature" /></section>
    <div class="buttons">
      <button type="button" class="button primary" onClick=${() => setChecking(true)} disabled=${checking}>Check this record</button>
      <a class="button" href=${href('proof', record.index)}>See its proof</a>
    </div>
    ${checking && html`<section class="stack"><h3>Checked in this page</h3><${CheckSteps} record=${record} companyKey=${companyKey} /></section>`}`;
}
