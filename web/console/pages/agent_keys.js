// @ts-check
// The keys of an agent, with which it signs what it does: which there are, who enrolled them and
// how, which of them the reader has confirmed, and how another machine gets one.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { createEnrolment, enrolLine, readKeys, revokeKey } from '../core/agent_keys.js';
import { heldAgainst } from '../core/agent_keys_said.js';
import { agentKeyState, agentTrust, confirmAgentKey, forgetAgentKey } from '../core/agent_trust.js';
import { timeText } from '../core/format.js';
import { useStore } from '../core/store.js';
import { keysOf } from '../core/words.js';
import { revokedForm } from '../lib/evidence/agent_keys.js';
import { having, nullable, string } from '../lib/form.js';
import { readEndorsement } from '../lib/statement.js';
import { visible } from '../lib/visible.js';
import { Badge, Failure, Field, Notice, Value, useTask } from '../parts/basic.js';
import { By } from '../parts/by.js';
import { Confirm } from '../parts/dialogs.js';
import { Choice } from '../parts/grant.js';
import { TimeField } from '../parts/period.js';
import { Text } from '../parts/text.js';
import { table } from '../lib/table.js';

/** @type {[string, string][]} */
const LIFETIMES = [['600', '10 minutes'], ['3600', '1 hour'], ['86400', '24 hours']];
const enrolledForm = having({ enrolment: nullable(string), endorsement: nullable(string) });

/**
 * By what a key was enrolled, as its control record says; key is the one that signed for it.
 * @param {ControlEvent & {source: string}} event
 */
function enrolmentOf(event) {
  const { enrolment, endorsement } = enrolledForm(event.inner, event.source, 'it');
  return { enrolment, before: endorsement === null ? null : readEndorsement(endorsement).kid };
}

/** @param {{event?: ControlEvent & {source: string}}} props */
function Enrolled({ event }) {
  if (!event) return html`<span class="bad-text">no control record says so</span>`;
  const { enrolment, before } = enrolmentOf(event);
  return html`<span title=${event.timestamp}>${timeText(event.timestamp)}</span>
    <div class="small muted">${before !== null ? html`by the key before it, <code><${Text} of=${before} /></code>`
      : enrolment !== null ? html`by the enrolment token <code><${Text} of=${enrolment} /></code>`
        : html`by a credential, <${By} by=${event.by || null} />`}</div>`;
}

/**
 * What the control log says of the revocation of a key: why, and since when it was in other hands.
 * @param {(ControlEvent & {source: string})[]} events
 */
function revocationOf(events) {
  const said = events.filter(({ action }) => action === 'agent-key.revoked')
    .map(({ inner, source }) => revokedForm(inner, source, 'it'));
  const since = said.flatMap((one) => one.since ?? []).sort()[0] ?? '';
  return { since, reason: (said.find((one) => one.since === since) ?? said[0])?.reason ?? '' };
}

/** @param {{revokedAt: string, events: (ControlEvent & {source: string})[]}} props */
function Revoked({ revokedAt, events }) {
  const { since, reason } = revocationOf(events);
  return html`<div class="small muted" title=${revokedAt}>revoked ${timeText(revokedAt)}${reason && html`:
      ${' '}<${Text} of=${reason} />`}</div>
    ${since && html`<div class="small warn-text" data-since=${since}>in other hands since
      <span title=${since}>${timeText(since)}</span></div>`}`;
}

/** @type {Record<KeyState, string>} */
const SAYS = table({ confirmed: 'confirmed by you', other: 'not a confirmed key', unconfirmed: 'not confirmed' });
/** @type {Partial<Record<KeyState, Tone>>} */
const TONES = table({ other: 'bad', unconfirmed: 'warn' }); // as of a company's key: that one is confirmed is no check

/**
 * @param {{agent: AgentName, held: ReturnType<typeof heldAgainst>,
 *   events: (ControlEvent & {source: string})[], chain: string[], onRevoke: () => void}} props
 */
function Row({ agent, held: k, events, chain, onRevoke }) {
  const event = events.find(({ action }) => action === 'agent-key.enrolled');
  const trust = useStore(agentTrust);
  const state = agentKeyState(agent, chain, trust);
  const own = state === 'confirmed' && agentKeyState(agent, [k.thumbprint], trust) === 'confirmed';
  const expired = k.expiresAt !== null && Date.parse(k.expiresAt) <= Date.now();
  return html`
    <tr data-key=${visible(k.thumbprint)} data-key-state=${state} data-revoked=${k.revokedAt ? 'yes' : 'no'}>
      <td data-label="Key"><code><${Text} of=${k.thumbprint} /></code>
        <div class="small muted">${visible(k.alg)}${k.label && html`, <${Text} of=${k.label} />`}</div>
        ${k.wrong.map((one) => html`<div class="small bad-text" role="alert" data-misstated>
          <${Text} of=${one} /></div>`)}
        </td>
      <td data-label="Enrolled"><${Enrolled} event=${event} /></td>
      <td data-label="Expires">${k.expiresAt ? html`<span title=${k.expiresAt}>${timeText(k.expiresAt)}</span>`
        : 'never'}${expired && html` <${Badge}>expired<//>`}
        ${k.revokedAt && html`<${Revoked} revokedAt=${k.revokedAt} events=${events} />`}</td>
      <td data-label="Confirmed"><${Badge} tone=${TONES[state]}>${SAYS[state]}<//>
        ${state === 'confirmed' && !own && html`<div class="small muted">follows from a confirmed key</div>`}</td>
      <td><div class="buttons">
        ${own && html`<button type="button" class="button quiet small"
          aria-label=${visible(`Remove confirmation of key ${k.thumbprint}`)}
          onClick=${() => forgetAgentKey(agent, k.thumbprint)}>Remove confirmation</button>`}
        <button type="button" class="button ${k.revokedAt ? 'quiet' : 'danger'} small" onClick=${onRevoke}
          aria-label=${visible(`${k.revokedAt ? 'Report theft of' : 'Revoke'} key ${k.thumbprint}`)}>
          ${k.revokedAt ? 'Report theft' : 'Revoke'}</button></div></td>
    </tr>`;
}

/** @param {{agent: AgentName, keys: ListedAgentKey[]}} props */
function ConfirmAgentKey({ agent, keys }) {
  const [typed, setTyped] = useState('');
  const [wrong, setWrong] = useState(false);
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    const found = keys.some(({ thumbprint }) => confirmAgentKey(agent, thumbprint, typed));
    setWrong(!found);
    if (found) setTyped('');
  };
  return html`
    <form class="stack tight confirm-key" onSubmit=${submit}>
      <${Field} label="Thumbprint of a key of this agent"
        hint="Get it where the agent runs: attestd agent-key list marks the key of its machine. A copy from this page
          proves nothing: the company can enrol a key for any agent. What a confirmed key signed is shown in green.">
        ${(p) => html`<span class="confirm-line">
          <input ...${p} class="input mono" name="thumbprint" required autocomplete="off" spellcheck="false"
            value=${typed} onInput=${(e) => {
              setTyped(e.target.value);
              setWrong(false);
            }} /><button class="button">Confirm key</button></span>`}<//>
      ${wrong && html`<p class="small bad-text" role="alert">No key that is enrolled for this agent has this thumbprint.
        If it is from the agent’s machine, don’t trust what these keys signed.</p>`}
    </form>`;
}

/** @param {{agentId: string, onDone: () => void}} props */
function Enrol({ agentId, onDone }) {
  const [label, setLabel] = useState('');
  const [seconds, setSeconds] = useState('600');
  const [made, setMade] = useState(/** @type {{token: string, expiresAt: string} | null} */ (null));
  const [run, busy, error] = useTask();
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    run(async () => {
      setMade(await createEnrolment(agentId, Number(seconds), label.trim()));
      onDone();
    });
  };
  return html`
    <form class="stack" onSubmit=${submit}>
      <${Field} label="Label (optional)" hint="For people: the machine, for example.">
        ${(p) => html`<input ...${p} class="input" name="label" maxlength="128" autocomplete="off" value=${label}
          onInput=${(e) => setLabel(e.target.value)} />`}<//>
      <${Choice} name="lifetime" label="Token expires after" options=${LIFETIMES} value=${seconds} set=${setSeconds} />
      <${Failure} error=${error} />
      <div><button class="button primary" disabled=${busy}>Create enrolment token</button></div>
      ${made && html`
        <${Notice}>Run this line where the agent runs. It makes a key there, which never leaves that machine, and
          enrols it. The token is good for one key, until ${timeText(made.expiresAt)}, and is shown only once.<//>
        <div data-enrol-line><${Value} value=${enrolLine(made.token)} what="command" /></div>`}
    </form>`;
}

/**
 * Revokes a key, or says of one that is revoked since when it was in other hands.
 * @param {{agentId: string, thumbprint: string, revokedAt: string | null, onDone: () => void,
 *   onClose: () => void}} props
 */
function Revoke({ agentId, thumbprint, revokedAt, onDone, onClose }) {
  const [since, setSince] = useState('');
  return html`
    <${Confirm} title=${revokedAt ? 'Report that this key was stolen?' : 'Revoke this key?'}
      action=${revokedAt ? 'Report theft' : 'Revoke key'} reasonLabel="Reason (optional)" onClose=${onClose}
      act=${async (/** @type {string} */ reason) => {
        await revokeKey(agentId, thumbprint, { reason, since });
        onDone();
      }}>
      <p>${revokedAt ? 'The key' : 'Statements of the key'} <code><${Text} of=${thumbprint} /></code> ${revokedAt
        ? 'is revoked. What is recorded stays in the log.' : `are refused from now on, also those that it has signed
        and not sent yet. Existing records stay valid. This can’t be undone.`}</p>
      <${TimeField} label="In other hands since" name="since" value=${since} set=${setSince} seconds
        needed=${revokedAt !== null}
        hint="If the key was stolen, every verdict on what it signed and was recorded since then says so. This can
          be moved to an earlier time later, and never taken back." />
    <//>`;
}

/**
 * The keys of an agent as the server lists them, what the control log says of them, and which of
 * those in the log are not listed.
 * @param {string} agentId
 */
async function readAll(agentId) {
  const before = await readKeys(agentId); // each of them must stand in the log
  const said = await keysOf(agentId);
  /** @param {ListedAgentKey[]} keys */
  const missing = (keys) => [...said.known.keys()].filter((kid) => !keys.some((one) => one.thumbprint === kid));
  const keys = missing(before).length ? await readKeys(agentId) : before; // one may have been enrolled meanwhile
  return { keys, said, unlisted: missing(keys) };
}

/**
 * version: counts what was changed on the page.
 * @param {{agent: AgentName & {disabledAt?: string}, version: number,
 *   onChange: () => void}} props
 */
export function AgentKeys({ agent, version, onChange }) {
  const { agentId } = agent;
  const [state, setState] = useState(/** @type {Awaited<ReturnType<typeof readAll>> | null} */ (null));
  const [revoking, setRevoking] = useState('');
  const [run, busy, error] = useTask();
  const load = () => run(async () => setState(await readAll(agentId)));
  useEffect(() => { load(); }, [agentId, version]);
  const { keys = [], said, unlisted = [] } = state ?? {};
  /** @param {string} thumbprint */
  const eventsOf = (thumbprint) => said?.known.get(thumbprint) ?? [];
  const held = keys.map((key) => heldAgainst(key, eventsOf(key.thumbprint)));
  return html`
    <section class="card across" aria-label="Keys of this agent" data-keys=${state ? keys.length : ''}>
      <div class="card-head"><h2>Keys</h2>
        <button type="button" class="button quiet small" disabled=${busy} onClick=${() => onChange()}>
          Refresh</button></div>
      <p class="small muted">With a key of its own an agent signs what it does. The holder of only a company key
        cannot make that signature.</p>
      <${Failure} error=${error} retry=${load} />
      ${state && !keys.length && html`<p class="empty">No keys yet.</p>`}
      ${unlisted.length > 0 && html`<${Notice} kind="bad">The control log names keys of this agent that the server does
        not list: ${unlisted.map((kid) => html`<div><code><${Text} of=${kid} /></code></div>`)}<//>`}
      ${keys.length > 0 && html`
        <table class="table passports">
          <thead><tr><th>Key</th><th>Enrolled</th><th>Expires</th><th>Confirmed</th>
            <th><span class="visually-hidden">Actions</span></th></tr></thead>
          <tbody>${held.map((k) => html`<${Row} key=${k.thumbprint} agent=${agent} held=${k}
            events=${eventsOf(k.thumbprint)}
            chain=${said?.chains.get(k.thumbprint) ?? [k.thumbprint]} onRevoke=${() => setRevoking(k.thumbprint)} />`)}
          </tbody>
        </table>
        <${ConfirmAgentKey} agent=${agent} keys=${keys} />`}
      ${!agent.disabledAt && html`<details class="steps"><summary>Enrol a key</summary>
        <${Enrol} agentId=${agentId} onDone=${onChange} /></details>`}
      ${revoking && html`<${Revoke} agentId=${agentId} thumbprint=${revoking} onDone=${onChange}
        revokedAt=${held.find(({ thumbprint }) => thumbprint === revoking)?.revokedAt ?? null}
        onClose=${() => setRevoking('')} />`}
    </section>`;
}
