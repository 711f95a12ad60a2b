// Proof: one record, its way to the root, and evidence that anyone can check without this server.
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { proofOf } from '../core/api.js';
import { plural } from '../core/format.js';
import { go } from '../core/router.js';
import { companyKey, session } from '../core/session.js';
import { useStore } from '../core/store.js';
import { publicKey } from '../lib/ed25519.js';
import * as evidence from '../lib/evidence.js';
import { Badge, Failure, Field, Notice, Page, useTask } from '../parts/basic.js';
import { Drop } from '../parts/drop.js';
import { RecordView } from '../parts/record_view.js';
import { ProofWalk } from './proof_walk.js';

function save(subject) {
  const text = evidence.build({ ...subject, savedAt: new Date().toISOString() });
  const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = `evidence-${subject.key.companyId}-${subject.record.index}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// Whose key the evidence carries. The file cannot vouch for its own key: that takes another source.
async function compareKey(subject, identity) {
  const { company, key } = session.get();
  try {
    const known = company?.companyId === subject.record.companyId ? key : await companyKey(subject.record.companyId);
    return known.fingerprint === identity.fingerprint
      ? { ok: true, text: `It is the key that this server publishes for ${subject.record.companyId}.` }
      : { ok: false, text: `This server publishes another key for ${subject.record.companyId}: ${known.fingerprint}` };
  } catch {
    return { text: 'No server confirms the key. Compare its fingerprint with one that you trust.' };
  }
}

function Checked({ subject }) {
  const [result, setResult] = useState(null);
  const [origin, setOrigin] = useState(null);
  useEffect(() => {
    let current = true;
    setResult(null);
    setOrigin(null);
    evidence.check(subject).then(async (r) => {
      if (!current) return;
      setResult(r);
      const compared = await compareKey(subject, r.identity);
      if (current) setOrigin(compared);
    });
    return () => { current = false; };
  }, [subject]);
  if (!result) return html`<p class="muted">Computing …</p>`;
  return html`
    <section class="card" data-evidence=${result.ok ? 'ok' : 'bad'}>
      <${Notice} kind=${result.ok ? 'ok' : 'bad'}>
        ${result.ok ? html`<strong>The proof holds.</strong> Record ${subject.record.index} is signed by this key and is part of the tree with this root.`
          : html`<strong>The proof fails:</strong> ${result.reason}.`}
      <//>
      <dl class="facts">
        <dt>record hash</dt><dd><${Badge} ok=${result.record.hashOK}>${result.record.hashOK ? 'matches' : 'differs'}<//> <code>${subject.record.hash}</code></dd>
        <dt>signature</dt><dd><${Badge} ok=${result.record.signatureOK}>${result.record.signatureOK ? 'verifies' : 'fails'}<//></dd>
        <dt>path</dt><dd><${Badge} ok=${result.rootOK}>${result.rootOK ? `${plural(subject.proof.length, 'step')} to the root` : 'does not lead to the root'}<//></dd>
        <dt>root</dt><dd><code>${subject.root}</code></dd>
        <dt>key</dt><dd><code>${result.identity.fingerprint}</code><br />
          ${origin && html`<span class="small ${origin.ok === false ? 'bad-text' : 'muted'}" data-origin=${origin.ok ?? 'unknown'}>${origin.text}</span>`}</dd>
      </dl>
    </section>`;
}

export function Proof({ argument }) {
  const { status, key } = useStore(session);
  const [subject, setSubject] = useState(null);
  const [fileError, setFileError] = useState('');
  const [run, busy, error] = useTask();
  const input = useRef(null);

  useEffect(() => {
    if (status !== 'in' || !/^[0-9]{1,15}$/.test(argument)) return;
    setFileError('');
    run(async () => setSubject({ ...(await proofOf(Number(argument))), key, raw: key.raw, prepared: key.prepared }));
  }, [argument, status]);

  const submit = (event) => {
    event.preventDefault();
    const wanted = input.current.value.trim();
    if (wanted === argument) run(async () => setSubject({ ...(await proofOf(Number(wanted))), key, raw: key.raw, prepared: key.prepared }));
    else go('proof', wanted);
  };
  const dropped = async (text, name) => {
    setFileError('');
    setSubject(null);
    try {
      const read = evidence.read(text);
      setSubject({ ...read, key: { ...read.key, fingerprint: (await evidence.identify(read.raw)).fingerprint }, prepared: await publicKey(read.raw), file: name });
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
          <p class="muted">Drop an evidence file here. It is checked in this page, whether the server runs or not.</p>
        <//>
      </div>
      ${fileError && html`<${Notice} kind="bad">${fileError}<//>`}
      ${subject && html`
        <section class="stack">
          <div class="card-head"><h2>Record ${subject.record.index}${subject.file ? html` <span class="muted">from ${subject.file}</span>` : ''}</h2>
            <button type="button" class="button" onClick=${() => save(subject)}>Download evidence</button></div>
          <${Checked} subject=${subject} />
          <${ProofWalk} subject=${subject} />
          <details class="card"><summary>The record itself</summary><div class="stack"><${RecordView} record=${subject.record} companyKey=${subject.key.prepared ? subject.key : { ...subject.key, prepared: subject.prepared }} /></div></details>
        </section>`}
    <//>`;
}
