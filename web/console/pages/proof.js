// Proof: one record, its way to the root, and evidence that anyone can check without this server.
import { html, useEffect, useMemo, useRef, useState } from '../vendor/preact-htm.js';
import { proofOf } from '../core/api.js';
import { plural } from '../core/format.js';
import { go } from '../core/router.js';
import { companyKey, session } from '../core/session.js';
import { useStore } from '../core/store.js';
import * as evidence from '../lib/evidence.js';
import { keyAt } from '../lib/keyring.js';
import { Badge, Failure, Field, Notice, Page, useResult, useTask } from '../parts/basic.js';
import { Drop } from '../parts/drop.js';
import { ConfirmKey, useStanding } from '../parts/key_trust.js';
import { RecordView } from '../parts/record_view.js';
import { save } from '../parts/save.js';
import { ProofWalk } from './proof_walk.js';

function saveEvidence(subject) {
  const text = evidence.build({ ...subject, savedAt: new Date().toISOString() });
  save(`evidence-${subject.key.companyId}-${subject.record.index}.json`, 'application/json', text);
}

// Whose key the evidence names: {tone, text}. A key that was confirmed needs no server. One that was not is at best amber, and red where
// this server publishes another one for the company.
function useOrigin(key, index) {
  const standing = useStanding(key);
  const published = useResult(() => companyKey(key.companyId).then((k) => keyAt(k, index).fingerprint, () => ''), [key]);
  if (standing === 'confirmed') return { tone: 'ok', text: `You confirmed this key for ${key.companyId}.` };
  if (standing === 'other') return { tone: 'bad', text: `You confirmed another key for ${key.companyId}.` };
  if (published && published !== keyAt(key, index).fingerprint) return { tone: 'bad', text: `This server publishes another key for ${key.companyId}: ${published}` };
  return { tone: 'warn', text: published ? `This server publishes this key for ${key.companyId}; you have not confirmed it.` : 'Nobody confirms this key: it came with the file.' };
}

const VERDICTS = {
  ok: (index) => html`<strong>The proof holds.</strong> Record ${index} is signed with the key that you confirmed, and part of the tree with this root.`,
  warn: (index) => html`<strong>Whose key?</strong> Record ${index} is signed with the key below, and part of the tree with this root. Anyone can make a key: compare its fingerprint.`,
};

function Checked({ subject, result, origin, tone }) {
  const of = (ok) => (ok ? tone : 'bad');
  return html`
    <section class="card" data-evidence=${tone}>
      <${Notice} kind=${tone}>
        ${!result.ok ? html`<strong>The proof fails:</strong> ${result.reason}.`
          : tone === 'bad' ? html`<strong>Another key signed this.</strong> ${origin.text}` : VERDICTS[tone](subject.record.index)}
      <//>
      <dl class="facts">
        <dt>record hash</dt><dd><${Badge} tone=${of(result.record.hashOK)}>${result.record.hashOK ? 'matches' : 'differs'}<//> <code>${subject.record.hash}</code></dd>
        <dt>signature</dt><dd><${Badge} tone=${of(result.record.signatureOK)}>${result.record.signatureOK ? 'by this key' : 'not by this key'}<//></dd>
        <dt>path</dt><dd><${Badge} tone=${of(result.rootOK)}>${result.rootOK ? `${plural(subject.proof.length, 'step')} to the root` : 'does not lead to the root'}<//></dd>
        <dt>root</dt><dd><code>${subject.root}</code><br /><span class="small muted">Compare it with one that you keep.</span></dd>
        <dt>key</dt><dd><code>${keyAt(subject.key, subject.record.index).fingerprint}</code><br /><span class="small ${origin.tone === 'bad' ? 'bad-text' : 'muted'}" data-origin=${origin.tone}>${origin.text}</span></dd>
      </dl>
      <${ConfirmKey} keyOf=${subject.key} />
    </section>`;
}

// What was proved: the verdict, the walk and the record, all in the tone of the one check.
function Subject({ subject: given }) {
  const { key: named, record: { index } } = given;
  // A file of one key alone is of a company that may have had others: this server knows which, and proves it.
  const published = useResult(() => companyKey(named.companyId).catch(() => null), [named]);
  const adopted = !named.ring && published?.ring && keyAt(published, index).fingerprint === named.fingerprint;
  const subject = useMemo(() => (adopted ? { ...given, key: published } : given), [given, adopted]);
  const origin = useOrigin(subject.key, subject.record.index);
  const result = useResult(() => evidence.check(subject), [subject]);
  const tone = result && (result.ok ? origin.tone : 'bad');
  return html`
    <section class="stack">
      <div class="card-head"><h2>Record ${subject.record.index}${subject.file ? html` <span class="muted">from ${subject.file}</span>` : ''}</h2>
        <button type="button" class="button" onClick=${() => saveEvidence(subject)}>Download evidence</button></div>
      ${!result ? html`<p class="muted">Computing …</p>` : html`
        <${Checked} ...${{ subject, result, origin, tone }} />
        <${ProofWalk} subject=${subject} leaf=${result.record.computed || subject.record.hash} tone=${tone} />`}
      <details class="card"><summary>The record itself</summary><div class="stack"><${RecordView} record=${subject.record} companyKey=${subject.key} /></div></details>
    </section>`;
}

export function Proof({ argument }) {
  const { status, key } = useStore(session);
  const [subject, setSubject] = useState(null);
  const [fileError, setFileError] = useState('');
  const [run, busy, error] = useTask();
  const input = useRef(null);
  const draw = (index) => run(async () => setSubject({ ...(await proofOf(Number(index))), key }));

  useEffect(() => {
    if (status !== 'in' || !/^[0-9]{1,15}$/.test(argument)) return;
    setFileError('');
    draw(argument);
  }, [argument, status]);

  const submit = (event) => {
    event.preventDefault();
    const wanted = input.current.value.trim();
    if (wanted === argument) draw(wanted);
    else go('proof', wanted);
  };
  const dropped = async (text, name) => {
    setFileError('');
    setSubject(null);
    try {
      setSubject({ ...(await evidence.read(text)), file: name });
    } catch (err) {
      setFileError(`${name}: ${err.message}`);
    }
  };
  return html`
    <${Page} title="Proof" lead="A few hashes lead from one record to the root of the whole tree. Whoever knows the root and the public key needs nothing else to check it.">
      <div class="columns">
        <form class="card" onSubmit=${submit}>
          <h2>Prove a record</h2>
          ${status === 'in'
            ? html`
              <${Field} label="Record index">${(p) => html`<input ...${p} ref=${input} class="input" inputmode="numeric" pattern="[0-9]+" required defaultValue=${argument} value=${argument} />`}<//>
              <div class="buttons"><button class="button primary" disabled=${busy}>Draw the proof</button></div>`
            : html`<p class="muted">Sign in to draw proofs of your records. Evidence files are checked without.</p>`}
          <${Failure} error=${error} />
        </form>
        <${Drop} what="an evidence file" onText=${dropped}>
          <h2>Check evidence</h2>
          <p class="muted">Drop an evidence file here. It is checked in this page, whether the server runs or not.
            Files of GET /v1/evidence have <a href="/verifier.html">a page of their own</a>, which can be saved and works without any server.</p>
        <//>
      </div>
      ${fileError && html`<${Notice} kind="bad">${fileError}<//>`}
      ${subject && html`<${Subject} subject=${subject} />`}
    <//>`;
}
