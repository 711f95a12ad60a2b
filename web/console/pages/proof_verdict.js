// @ts-check
// The verdict on evidence: whether it holds, whose key signed it, who cosigned it, and by whose
// policy that is enough.
import { html } from '../vendor/preact-htm.js';
import { plural, timeText } from '../core/format.js';
import { findings } from '../core/findings.js';
import { companyKey } from '../core/session.js';
import { useStore } from '../core/store.js';
import { keyStateOf, trust } from '../core/trust.js';
import { PART, isGreen, verdict as verdictOf } from '../core/verdict.js';
import { keyAt } from '../lib/keyring.js';
import { Badge, Notice, useResult } from '../parts/basic.js';
import { Against } from '../parts/findings.js';
import { ConfirmKey } from '../parts/key_trust.js';
import { Text } from '../parts/text.js';

const PATIENCE = 3000; // ms; what is checked here needs no server

/**
 * The keys that this server publishes for a company, or null where it knows none or does not
 * answer.
 * @param {string} companyId
 * @returns {Promise<ServiceKey | null>}
 */
export const publishedKey = (companyId) =>
  Promise.race([
    companyKey(companyId).catch(() => null),
    new Promise((resolve) => setTimeout(resolve, PATIENCE, null)),
  ]);

/**
 * Whose key has signed: {keyState, head, text, late}, with a head where it stays uncertain. late
 * says that the holder of the key now may not be its owner. A key that was confirmed needs no
 * server. The server's word makes nothing green, and much less: it may know of another key, of a
 * compromised one, or of those that came later.
 * @param {NamedKey} key
 * @param {CompanyKey | null} published
 * @param {TrustState} [entries]
 * @returns {KeyOrigin}
 */
function originOf(key, published, entries) {
  const { companyId } = key;
  const known = published ? published.ring ?? [published] : [];
  const last = known.find(({ fingerprint }) => fingerprint === key.fingerprint);
  const is = keyStateOf(key, entries);
  const itself = keyStateOf({ companyId, fingerprint: key.fingerprint }, entries) === 'confirmed';
  if (last?.compromisedAt)
    return {
      keyState: 'unconfirmed',
      late: true,
      head: 'A compromised key.',
      text: `According to this server, ${companyId} declared this key compromised at ` +
        `${timeText(last.compromisedAt)}: its thief could have signed this.`,
    };
  if (itself) return { keyState: 'confirmed', text: `You confirmed this key for ${companyId}.` };
  if (is === 'other' && published && last && keyStateOf(published, entries) === 'confirmed') {
    return {
      keyState: 'unconfirmed',
      late: true,
      head: 'A retired key.',
      text: `This key was retired before the one that you confirmed for ${companyId}. Anyone who still has it could ` +
        `sign: download new evidence.`,
    };
  }
  if (is === 'other') return { keyState: 'other', text: `You confirmed another key for ${companyId}.` };
  if (published && !last)
    return {
      keyState: 'other',
      text: `This server publishes another key for ${companyId}: ${published.fingerprint}`,
    };
  if (is === 'confirmed')
    return { keyState: 'confirmed', text: `It follows from the key that you confirmed for ${companyId}.` };
  return {
    keyState: 'unconfirmed',
    head: '',
    text: last
      ? `This server publishes this key for ${companyId}; you have not confirmed it.`
      : 'This key came with the file; you have not confirmed it.',
  };
}

/**
 * What verdict() says of the whole, with {origin, part, takes, unmet}: part is the tone of what
 * holds of it by itself, takes what a policy says of each checkpoint, unmet why it does not take
 * them. A small file is never green, because its root is unsigned.
 * @param {OpenedEvidence} opened
 * @param {CompanyKey | null} published
 * @param {{policy: Policy | null}} policy
 * @returns {ProofVerdict}
 */
export function useProofVerdict(opened, published, { policy }) {
  const entries = useStore(trust);
  const judged = useResult(async () => {
    if (!policy || !opened.ok || !opened.found) return { unmet: '' };
    return opened.found.meets(policy).then((accepted) => ({ accepted, unmet: '' }), (err) => ({ unmet: err.message }));
  }, [opened, policy]);
  const found = useStore(findings).all.filter(({ companyId }) => companyId === opened.companyId);
  /** @type {KeyOrigin} */
  const origin = opened.key ? originOf(opened.key, published, entries) : { keyState: 'other', text: '' };
  /**
   * @param {boolean} ok
   * @param {About} [about]
   */
  const assess = (ok, about) => verdictOf({ ok, keyState: origin.keyState, found, about });
  const { tone, own, is, against } = assess(Boolean(opened.ok && !judged?.unmet));
  /**
   * @param {Tone} given
   * @returns {Tone}
   */
  const capped = (given) => (isGreen(given) && (opened.small || (policy && !judged)) ? 'warn' : given);
  return { tone: capped(tone), own: capped(own), is, against, part: assess(true, PART).tone, origin, ...judged };
}

/** @param {{opened: OpenedEvidence, verdict: ProofVerdict}} props */
function Sentence({ opened: { ok, code, reason, small, record, size }, verdict: { own, is, origin, unmet } }) {
  if (!ok) return html`<strong>Fails${code && `: ${code}`}.</strong> <${Text} of=${reason} />.`;
  if (unmet) return html`<strong>Fails: POLICY. The policy is not met:</strong> <${Text} of=${unmet} />.`;
  if (is === 'another key')
    return html`<strong>Fails: KEY. Another key signed this.</strong> <${Text} of=${origin.text} />`;
  const where = `is one of ${plural(size ?? 0, 'record')} in a log whose checkpoint that key signed`;
  if (isGreen(own))
    return html`<strong>Holds.</strong> Record ${record.index} is signed with the key that you confirmed,
    and ${where}.`;
  if (origin.keyState === 'confirmed')
    return html`<strong>The record is genuine, its position is not proven.</strong> It is signed with the key that you
    confirmed, but the chain root in this file is unsigned. Download new evidence to prove its position.`;
  return html`<strong>Holds, key not confirmed. ${origin.head}</strong> Record ${record.index} is signed with the key
  below
  ${small ? ', and the chain root in this file is unsigned' : `, and ${where}`}
  . Anyone can create a key: compare its fingerprint.`;
}

/** @param {string} vkey */
const nameOf = (vkey) => vkey.split('+')[0];

/** @param {{checkpoint: CheckedCheckpoint}} props */
function Witnesses({ checkpoint: { cosignatures } }) {
  if (!cosignatures.length) return html`<span class="muted">no witness has cosigned this checkpoint</span>`;
  return html`
    <ul class="stack tight">${cosignatures.map(
      ({ vkey, at }) => html`
      <li title=${vkey}><strong><${Text} of=${nameOf(vkey)} /></strong> at ${timeText(at)}
        , key <code>${vkey.split('+')[1]}</code></li>`,
    )}</ul>
    <span class="small muted">They came with the file: trust only witnesses that you know.</span>`;
}

/** @param {{policy: EnteredPolicy, verdict: ProofVerdict}} props */
function PolicyRow({ policy: { from }, verdict: { accepted, unmet, part } }) {
  const whose = from ? 'The policy from the file' : 'Your policy';
  const tone = unmet ? 'bad' : from ? '' : part; // a policy that its sender chose proves nothing by being met
  return html`
    <dt>policy</dt><dd data-policy=${unmet ? 'unmet' : 'met'}><${Badge} tone=${tone}>${unmet ? 'not met' : 'met'}<//>
      ${unmet ? html` <${Text} of=${`${whose}: ${unmet}`} />`
        : accepted?.map(({ log, by }) => html` <div>${whose} accepts the checkpoint of the log ${log}
        , cosigned by <${Text} of=${by.join(', ') || 'no witness (none required)'} /></div>`)}</dd>`;
}

const UNREACHED = 'not checked';

/**
 * children stand below the facts.
 * @param {{opened: OpenedEvidence, verdict: ProofVerdict, policy: EnteredPolicy,
 *   children?: Child}} props
 */
export function Verdict({ opened, verdict, policy, children }) {
  const { record, key, passed, failed, proof, root, size, small, found, log } = opened;
  const { tone, origin, part, against } = verdict;
  const checkpoint = found?.checkpoints.get(log);
  // A step that has passed has the tone of the key with which it was checked; in a file that fails
  // or is of another key it has none, like one that was not reached.
  const good = opened.ok && !verdict.unmet && origin.keyState !== 'other' ? part : '';
  /**
   * @param {string} name
   * @param {Child} yes
   * @param {string} no
   */
  const step = (name, yes, no) => (passed.includes(name) ? html`<${Badge} tone=${good}>${yes}<//>`
    : html`<${Badge} tone=${failed === name ? 'bad' : ''}>${failed === name ? no : UNREACHED}<//>`);
  const steps = `${plural(proof.length, 'step')} to the chain root`;
  return html`
    <section class="card" data-evidence=${tone} data-code=${opened.code}>
      <${Notice} kind=${tone}>${against && opened.ok && html`<strong>Do not rely on it.</strong>`}
        <${Against} of=${against} /><${Sentence} opened=${opened} verdict=${verdict} /><//>
      <dl class="facts">
        ${record && html`<dt>record</dt>
        <dd>${step('record', 'hash and signature match', 'does not match')} <code class="under">
          ${record.hash}</code></dd>`}
        <dt>path</dt><dd>${
          small && passed.includes('hexProof')
            ? html`<${Badge}>${steps}, unsigned<//>`
            : step('hexProof', small ? steps : `${steps} of ${plural(size, 'record')}`,
              'does not lead to the chain root')
        } <code class="under">${root}</code></dd>
        ${
          checkpoint &&
          html`
          <dt>checkpoint</dt><dd>
            ${step('logProof', 'signed by the latest key',
              'does not prove the record')} ${plural(Number(checkpoint.size), 'record')} <code class="under">
              <${Text} of=${checkpoint.origin} /></code></dd>
          <dt>witnesses</dt><dd data-witnesses=${checkpoint.cosignatures.length}>
            <${Witnesses} checkpoint=${checkpoint} /></dd>`
        }
        ${(verdict.accepted || verdict.unmet) && html`<${PolicyRow} policy=${policy} verdict=${verdict} />`}
        ${
          key &&
          html`<dt>key</dt><dd><code>${(small ? keyAt(key, record.index) : key).fingerprint}</code><br />
          <span class="small ${origin.keyState === 'other' ? 'bad-text' : 'muted'}" data-origin=${part}>
            <${Text} of=${origin.text} /></span></dd>`
        }
      </dl>
      ${key && html`<${ConfirmKey} keyOf=${key} />`}
      ${children}
    </section>`;
}
