// @ts-check
// The policies on what agents may do: those in force and who put them, an editor, and beside it
// what a draft would have changed, record by record.
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { deletePolicy, policiesInForce, putPolicy, tryPolicies } from '../core/cedar.js';
import { count, plural } from '../core/format.js';
import { live } from '../core/live_state.js';
import { href } from '../core/router.js';
import { useSignedIn } from '../core/session.js';
import { useStore } from '../core/store.js';
import { visible } from '../lib/visible.js';
import { Failure, Field, Notice, Page, useTask } from '../parts/basic.js';
import { Change } from '../parts/change.js';
import { VERDICTS } from '../parts/decision.js';
import { Confirm } from '../parts/dialogs.js';
import { useAssess } from '../parts/key_trust.js';
import { Text } from '../parts/text.js';

const NONE = { id: '', cedar: '', description: '' };
const LAST = ['1000', '10000', '100000'];

/**
 * Where a character is in a text, of which lines and columns begin with 1. Columns count bytes.
 * @param {string} text
 * @param {number} line
 * @param {number} column
 */
function offsetOf(text, line, column) {
  const lines = text.split('\n');
  const before = lines.slice(0, line - 1).reduce((n, one) => n + one.length + 1, 0);
  const bytes = new TextEncoder().encode(lines[line - 1] ?? '').slice(0, column - 1);
  return before + new TextDecoder().decode(bytes).length;
}

/** @param {{of: Tried, onMore: () => unknown, busy: boolean}} props */
function Differences({ of: { decided, different, next }, onMore, busy }) {
  return html`
    <div class="stack tight" data-tried=${decided} data-different=${different.length}>
      <p role="status"><strong>${different.length ? `${plural(different.length, 'record')} of ${count(decided)}`
        : `None of ${plural(decided, 'record')}`}</strong> would have been decided otherwise.</p>
      <ul class="rows">${different.map(({ index, was, becomes, by }) => html`
        <li key=${index} class="row-button"><span><a href=${href('records', index)}>record ${index}</a>: ${
          was ? VERDICTS[was] : 'not decided'}, becomes ${VERDICTS[becomes]}
          ${by.length > 0 && html`<span class="muted"> by ${visible(by.join(', '))}</span>`}</span></li>`)}</ul>
      ${next !== null && html`<div><button type="button" class="button small" disabled=${busy} onClick=${onMore}>
        Go on from record ${next}</button></div>`}
      <p class="small muted">The server has decided these records again. This browser has not.</p>
    </div>`;
}

/**
 * A draft of a policy: {id, cedar, description}. ids are of those in force.
 * @param {{start: Draft, ids: string[], onDone: () => Promise<void>, onCancel: () => void}} props
 */
function Editor({ start, ids, onDone, onCancel }) {
  const [draft, setDraft] = useState(start);
  const [last, setLast] = useState(LAST[0]);
  const [tried, setTried] = useState(/** @type {Tried | null} */ (null));
  const [putting, setPutting] = useState(false);
  const [force, setForce] = useState(false);
  const [run, busy, error] = useTask();
  const length = useStore(live).server?.length ?? 0;
  const form = useRef(null);
  const { id, cedar, description } = draft;
  /** @param {Partial<Draft>} next */
  const change = (next) => {
    setDraft({ ...draft, ...next });
    setTried(null); // it is of another text
    setForce(false);
  };
  // Shows where the mistake is.
  useEffect(() => {
    if (!error?.line) return;
    const area = form.current.elements.cedar;
    const place = offsetOf(cedar, error.line, error.column ?? 1);
    area.focus();
    area.setSelectionRange(place, place + 1);
  }, [error]);
  /** @param {number} from */
  const tryFrom = (from) => run(async () => {
    const found = await tryPolicies({ draft: { policyId: id, cedar }, from });
    const before = tried && from > 0 && tried.next === from ? tried : { decided: 0, different: [] };
    setTried({
      decided: before.decided + found.decided, different: [...before.different, ...found.different], next: found.next,
    });
  });
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    setPutting(true);
  };
  const unknown = error?.code === 'POLICY_UNKNOWN_NAME';
  const put = () => run(async () => {
    await putPolicy(id, { cedar, ...(description.trim() && { description: description.trim() }) }, force);
    await onDone();
  });
  return html`
    <section class="card no-print" aria-label="Editor" data-editor=${visible(id)}>
      <h2>${start.id ? 'Edit a policy' : 'New policy'}</h2>
      <div class="columns">
      <form class="stack" ref=${form} onSubmit=${submit}>
        <${Field} label="ID" hint="1 to 64 letters, digits, dots, underscores and hyphens.">
          ${(p) => html`<input ...${p} class="input" name="policyId" required pattern="[A-Za-z0-9._\-]{1,64}"
            autocomplete="off" spellcheck="false" disabled=${Boolean(start.id)} value=${id}
            onInput=${(e) => change({ id: e.target.value })} />`}<//>
        <${Field} label="Text in Cedar">
          ${(p) => html`<textarea ...${p} class="input policy-text" name="cedar" required rows="12" spellcheck="false"
            autocomplete="off" aria-invalid=${error?.line ? 'true' : undefined} value=${cedar}
            onInput=${(e) => change({ cedar: e.target.value })}></textarea>`}<//>
        <${Field} label="Description (optional)">
          ${(p) => html`<input ...${p} class="input" name="description" autocomplete="off" value=${description}
            onInput=${(e) => change({ description: e.target.value })} />`}<//>
        ${error?.line
          ? html`<${Notice} kind="bad">Line ${error.line}, column ${error.column}: ${error.message}<//>`
          : html`<${Failure} error=${error} />`}
        ${(unknown || force) && html`<label><input type="checkbox" name="force" checked=${force}
          onChange=${(e) => setForce(e.target.checked)} /> Put it although it names what does not exist</label>`}
        <div class="buttons">
          <button class="button primary" disabled=${busy || !id || !cedar}>Put in force…</button>
          <button type="button" class="button" onClick=${onCancel}>Cancel</button></div>
      </form>
      <section class="stack" aria-label="What would have been different">
        <h3>What would have been different</h3>
        <${Field} label="Records">
          ${(p) => html`<select ...${p} class="input" name="last" value=${last}
            onChange=${(e) => setLast(e.target.value)}>
            ${LAST.map((n) => html`<option value=${n} selected=${n === last}>the last ${count(Number(n))}</option>`)}
            <option value="all" selected=${last === 'all'}>all</option></select>`}<//>
        <div><button type="button" class="button" disabled=${busy || !id || !cedar}
          onClick=${() => tryFrom(last === 'all' ? 0 : Math.max(0, length - Number(last)))}>Try the draft</button></div>
        ${tried && html`<${Differences} of=${tried} busy=${busy} onMore=${() => tryFrom(tried.next ?? 0)} />`}
      </section></div>
      ${putting && html`
        <${Confirm} title="Put this policy in force?" action="Put in force" onClose=${() => setPutting(false)}
          act=${put}>
          <p>From now on each request of the company’s agents is decided
            ${ids.includes(id) ? html` by this text of <code><${Text} of=${id} /></code>, in place of the one in force.`
              : html` by <code><${Text} of=${id} /></code> too.`}
            ${ids.length === 0 && ' With the first policy, what no policy permits is denied.'}</p><//>`}
    </section>`;
}

/**
 * @param {{id: string, of: CedarInForce, assess: Assess, onEdit: () => void, onDelete: () =>
 *   void}} props
 */
function One({ id, of: { cedar, description, change }, assess, onEdit, onDelete }) {
  return html`
    <section class="card" aria-label="Policy ${id}" data-policy=${id}>
      <div class="card-head"><h2 class="break"><code><${Text} of=${id} /></code></h2>
        <div class="buttons">
          <a class="button small" href=${href('records', '', { policy: id })}>Decisions</a>
          <button type="button" class="button small" aria-label="Edit ${id}" onClick=${onEdit}>Edit</button>
          <button type="button" class="button small danger" aria-label="Delete ${id}" onClick=${onDelete}>
            Delete</button></div></div>
      ${description && html`<p><${Text} of=${description} /></p>`}
      <pre class="code" tabindex="0" aria-label="Text of ${id}"><${Text} of=${cedar} /></pre>
      <ul class="change-list"><${Change} change=${change} assess=${assess} /></ul>
    </section>`;
}

export function Policies() {
  const { key } = useSignedIn();
  const assess = useAssess(key);
  const [found, setFound] = useState(/** @type {Awaited<ReturnType<typeof policiesInForce>> | null} */ (null));
  const [editing, setEditing] = useState(/** @type {Draft | null} */ (null));
  const [deleting, setDeleting] = useState('');
  const [run, busy, error] = useTask();
  const load = async () => {
    await run(async () => {
      setFound(null); // it may not be in force any more
      setFound(await policiesInForce());
    });
  };
  useEffect(() => { load(); }, [key.fingerprint]);
  const all = found ? [...found.now.policies].sort(([a], [b]) => (a < b ? -1 : 1)) : [];
  return html`
    <${Page} title="Policies" lead="What agents may do, down to the arguments of a call. The texts are those of control
      records, which this browser checks.">
      <${Failure} error=${error} retry=${load} />
      ${!found && busy && html`<p class="muted">Loading …</p>`}
      ${found && html`
        ${found.differs && html`<${Notice} kind="bad">${found.differs}<//>`}
        <div class="card-head">
          <p data-policies=${all.length}>${all.length === 0 ? 'No policy is in force: everything is allowed.'
            : html`${plural(all.length, 'policy', 'policies')} in force, revision ${found.now.revision}.`}</p>
          <div class="buttons">
            ${!editing && html`<button type="button" class="button primary" onClick=${() => setEditing(NONE)}>
              New policy</button>`}
            <button type="button" class="button" disabled=${busy} onClick=${load}>Refresh</button></div></div>
        ${editing && html`
          <${Editor} key=${editing.id} start=${editing} ids=${all.map(([id]) => id)}
            onCancel=${() => setEditing(null)} onDone=${async () => {
              setEditing(null);
              await load();
            }} />`}
        ${all.map(([id, of]) => html`
          <${One} key=${id} id=${id} of=${of} assess=${assess} onDelete=${() => setDeleting(id)}
            onEdit=${() => setEditing({ id, cedar: of.cedar, description: of.description })} />`)}
        ${found.last && html`<p class="small muted">The last change is
          ${' '}<a href=${href('control', found.last.record.index)}>control record ${found.last.record.index}</a>; it
          has the hash of all policies, so no change before it was left out.</p>`}`}
      ${deleting && html`
        <${Confirm} title="Delete this policy?" action="Delete policy" onClose=${() => setDeleting('')}
          act=${async () => {
            await deletePolicy(deleting);
            await load();
          }}>
          <p>From now on requests are decided without <code><${Text} of=${deleting} /></code>.
            ${all.length === 1 && ' It is the last policy: without it everything is allowed.'} Decisions on record
            stay, and the control log has its text.</p><//>`}
    <//>`;
}
