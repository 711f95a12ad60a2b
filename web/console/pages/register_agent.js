// @ts-check
// Registers an agent. One that is there already is registered again only after the difference was
// shown.
import { html, useState } from '../vendor/preact-htm.js';
import { findAgent, metadataOf, register } from '../core/agents.js';
import { timeText } from '../core/format.js';
import { href } from '../core/router.js';
import { parse } from '../lib/json.js';
import { differences } from '../lib/json_diff.js';
import { visible } from '../lib/visible.js';
import { Failure, Field, Notice, useTask } from '../parts/basic.js';
import { Confirm } from '../parts/dialogs.js';
import { Text } from '../parts/text.js';

/**
 * What was typed as metadata, as {node, source}; null for nothing. It throws where that is no JSON,
 * and says where.
 * @param {string} text
 */
function typedMetadata(text) {
  if (!text.trim()) return null;
  return { node: parse(text), source: text };
}

/** @param {{pointer: string, before?: string, after?: string}} props */
function Difference({ pointer, before, after }) {
  /**
   * @param {string} name
   * @param {string} [value]
   */
  const side = (name, value) =>
    html`<dt>${name}</dt><dd>
    ${value === undefined ? html`<span class="muted">nothing</span>`
      : html`<code><${Text} of=${value} /></code>`}</dd>`;
  return html`<li data-pointer=${visible(pointer)}><strong><code>${visible(pointer) || 'all of it'}</code></strong>
    <dl class="facts">${side('before', before)}${side('after', after)}</dl></li>`;
}

/**
 * @param {{was: RegisteredAgent, metadata: JSONText | null, act: () => unknown, onClose: () =>
 *   void}} props
 */
function ConfirmReplace({ was, metadata, act, onClose }) {
  const changed = differences(metadataOf(was), metadata);
  return html`
    <${Confirm} title="Edit the metadata of ${visible(was.agentId)}?" action="Replace metadata" act=${act}
      onClose=${onClose}>
      <div class="stack">
        <p>This agent was registered on <span title=${was.registeredAt}>${timeText(was.registeredAt)}</span>
          . Its registration time becomes now, and its metadata is replaced:</p>
        ${changed.length
          ? html`<ul class="differences">
          ${changed.map((one) => html`<${Difference} key=${one.pointer} ...${one} />`)}</ul>`
            : html`<p><strong>The metadata is unchanged.</strong></p>`}
      </div>
    <//>`;
}

/**
 * agentId: of the agent that is registered again; a field asks for it where there is none.
 * metadata: what stands in the form at first.
 * @param {{agentId?: string, metadata?: string, onDone: () => void}} props
 */
export function RegisterAgent({ agentId: fixed = '', metadata: first = '', onDone }) {
  const [agentId, setAgentId] = useState(fixed);
  const [metadata, setMetadata] = useState(first);
  const [existing, setExisting] = useState(
    /**
     * @type {{was: RegisteredAgent, metadata: JSONText | null} | null} */ (null),
  );
  const [made, setMade] = useState('');
  const [run, busy, error] = useTask();
  const done = () => {
    setMade(agentId);
    if (!fixed) {
      setAgentId('');
      setMetadata('');
    }
    onDone();
  };
  const value = () => (metadata.trim() ? JSON.parse(metadata) : undefined);
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    run(async () => {
      const typed = typedMetadata(metadata);
      const was = await findAgent(agentId);
      if (was) {
        setExisting({ was, metadata: typed });
        return;
      }
      await register(agentId, value(), true);
      done();
    });
  };
  const replace = async () => {
    if (existing) await register(existing.was.agentId, value(), false);
    done();
  };
  return html`
    <form class="stack" onSubmit=${submit}>
      ${!fixed && html`
        <${Field} label="Agent ID" hint="Letters, digits, dot, hyphen and underscore.">
          ${(p) => html`<input ...${p} class="input" name="agentId" required autocomplete="off" spellcheck="false"
            value=${agentId} onInput=${(e) => setAgentId(e.target.value)} />`}
        <//>`}
      <${Field} label="Metadata (optional)" hint="A JSON object.">
        ${(p) => html`<textarea ...${p} class="input" name="metadata" spellcheck="false"
          placeholder='{"team":"payments"}' value=${metadata}
            onInput=${(e) => setMetadata(e.target.value)}></textarea>`}
      <//>
      <${Failure} error=${error} />
      ${made && html`<${Notice}>Agent <a href=${href('agents', made)}><${Text} of=${made} /></a> is registered.<//>`}
      <div><button class="button primary" disabled=${busy}>${fixed ? 'Register' : 'Register agent'}</button></div>
    </form>
    ${existing && html`<${ConfirmReplace} ...${existing} act=${replace} onClose=${() => setExisting(null)} />`}`;
}
