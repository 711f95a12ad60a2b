// @ts-check
// Proof: one record, its way to the root, and evidence that anyone can check without this server.
import { html, useEffect, useMemo, useState } from '../vendor/preact-htm.js';
import { evidenceText } from '../core/evidence.js';
import { proveSince } from '../core/growth.js';
import { pinHead } from '../core/heads.js';
import { go, route } from '../core/router.js';
import { session, signedIn } from '../core/session.js';
import { useStore } from '../core/store.js';
import { isGreen } from '../core/verdict.js';
import { hex, utf8 } from '../lib/bytes.js';
import { open, withKeys } from '../lib/evidence/open.js';
import { keyAt } from '../lib/keyring.js';
import { Failure, Field, Page, useResult, useTask } from '../parts/basic.js';
import { Drop } from '../parts/drop.js';
import { summary } from '../lib/evidence/summary.js';
import { Beside, Content, Summary, Words } from '../parts/evidence_parts.js';
import { RecordView } from '../parts/record_view.js';
import { save } from '../parts/save.js';
import { Text } from '../parts/text.js';
import { NO_POLICY, PolicyField, policyOf } from './proof_policy.js';
import { Verdict, publishedKey, useProofVerdict } from './proof_verdict.js';
import { ProofWalk } from './proof_walk.js';

const LARGEST = 64 << 20; // bytes of an evidence file
/** @type {LogName[]} */
const LOGS = ['actions', 'control'];

/**
 * The service's evidence of a record, which must be of this record and company.
 * @param {number} index
 * @param {LogName} log
 * @returns {Promise<ProofSubject>}
 */
async function draw(index, log) {
  const bytes = utf8(await evidenceText(index, log));
  const opened = await open(bytes);
  const { companyId } = signedIn().company;
  if (opened.companyId !== companyId || opened.log !== log || (opened.record && opened.record.index !== index))
    throw new Error('The server answers with evidence of another record.');
  return { opened, bytes, name: '' };
}

/**
 * A saved file says what the log was then, and what was drawn what it is now. What the server shows
 * must go on from there, and on each later day.
 * @param {OpenedEvidence} opened
 * @param {HeadSource} source
 */
async function pinCheckpoints({ companyId, key: ownKey, found }, source) {
  if (!found || !ownKey) return;
  for (const [log, { size, root }] of found.checkpoints)
    pinHead(ownKey, { log, size: Number(size), logRoot: hex(root), source });
  const { status, key } = session.get();
  if (status === 'in'
    && key?.companyId === companyId) await proveSince(key).catch(() => {}); // without an answer nothing is known
}

/**
 * Whose key signed, by what this browser knows of the company's keys.
 * @param {EvidenceCheck} found
 * @param {ProofVerdict} verdict
 */
const signedBy = ({ subject: { signer } }, { origin }) =>
  origin.keyState === 'confirmed' ? `the company's key ${signer.fingerprint}, confirmed in this browser` : undefined;

/**
 * What was proved: the verdict, the walk and the record, all in the tone of the one check.
 * @param {{subject: ProofSubject, policy: EnteredPolicy, setPolicy: (policy: EnteredPolicy) =>
 *   void}} props
 */
function Subject({ subject: { opened, bytes, name }, policy, setPolicy }) {
  // A small file of one key is of a company that may have had others: this server knows which, and
  // proves it.
  const published = useResult(() => publishedKey(opened.companyId), [opened]);
  const own =
    opened.small &&
    !opened.key.ring &&
    published?.ring &&
    keyAt(published, opened.record.index).fingerprint === opened.key.fingerprint;
  const adopted = useResult(async () => (own ? withKeys(opened, published) : opened), [opened, own]);
  const proved = adopted ?? opened;
  const verdict = useProofVerdict(proved, published, policy);
  const { record, companyId, log, root, leaf, proof, found } = proved;
  const { recordKey } = proved;
  /** @type {{fingerprint: string, fromIndex?: number}[]} */
  const ring = recordKey ? recordKey.ring ?? [recordKey] : [];
  const signer = record && keyAt({ ring }, record.index);
  const green = isGreen(verdict.own); // what was found since may be the very reason to keep it
  useEffect(() => { if (green) pinCheckpoints(proved, name ? 'checkpoint' : 'seen'); }, [green, proved]);
  const walked = useMemo(() => ({ proof, root }), [proof, root]);
  const file = `evidence-${companyId}-${log === 'control' ? 'control-' : ''}${record?.index}.json`;
  return html`
    <section class="stack">
      <div class="card-head"><h2>${record ? `Record ${record.index}` : 'Evidence'}
        ${log === 'control' && ' of the control log'}
        ${name && html` <span class="muted">from <${Text} of=${name} /></span>`}</h2>
        ${!name && html`<button type="button" class="button" onClick=${() => save(file, 'application/json', bytes)}>
        Download evidence</button>`}</div>
      <div class="beside">
        <${Verdict} ...${{ opened: proved, verdict, policy }}><${PolicyField} ...${{ policy, setPolicy }} /><//>
        ${leaf && html`<${ProofWalk} subject=${walked} leaf=${leaf}
          tone=${verdict.against ? verdict.part : verdict.tone} />`}
        ${
          proved.ok &&
          (verdict.origin.late
            ? html`<${Content} companyId=${companyId} log=${log} record=${record} signer=${signer}
              agentKey=${found?.agentKeys?.who()} />`
            : html`<details class="card"><summary>Record</summary>
            <div class="stack"><${RecordView} ...${{ record, log }} companyKey=${proved.recordKey} /></div></details>`)
        }
        ${proved.ok && found && verdict.tone !== 'bad'
          && html`<${Summary} lines=${summary(found, signedBy(found, verdict))} />`}
        ${proved.ok && found && html`<${Beside} found=${found} />`}
      </div>
      <div class="columns">
        ${found && found.checked.length > 0
          && html`<${Words} title=${proved.ok ? 'Checks that passed' : 'Checks that passed before the failure'}
            list=${found.checked} />`}
        ${proved.ok && html`<${Words} title="Not proven" list=${proved.notProven} />`}
      </div>
    </section>`;
}

/** @param {DrawFormProps} props */
function DrawForm({ argument, log, onDraw, busy, error, retry }) {
  const { status } = useStore(session);
  const [wanted, setWanted] = useState({ index: argument, of: log });
  useEffect(() => setWanted({ index: argument, of: log }), [argument, log]);
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    onDraw(wanted.index.trim(), wanted.of);
  };
  return html`
    <form class="card" onSubmit=${submit}>
      <h2>Prove a record</h2>
      ${status === 'in' ? html`
        <div class="filters draw">
          <${Field} label="Record index">
            ${(p) => html`<input ...${p} class="input" inputmode="numeric" pattern="[0-9]{1,15}" required
              value=${wanted.index} onInput=${(e) => setWanted({ ...wanted, index: e.target.value })} />`}<//>
          <${Field} label="Log">
            ${(p) => html`<select ...${p} class="input" value=${wanted.of}
              onChange=${(e) => setWanted({ ...wanted, of: e.target.value === 'control' ? 'control' : 'actions' })}>
              ${LOGS.map((name) => html`<option value=${name}>${name}</option>`)}</select>`}<//>
        </div>
        <div class="buttons"><button class="button primary" disabled=${busy}>Show proof</button></div>`
      : html`<p class="muted">Sign in to prove your records. You can check evidence files without signing in.</p>`}
      <${Failure} error=${error} retry=${retry} />
    </form>`;
}

/** @param {{argument: string}} props */
export function Proof({ argument }) {
  const { status } = useStore(session);
  const { query } = useStore(route);
  const log = query.log === 'control' ? 'control' : 'actions';
  const [subject, setSubject] = useState(/** @type {ProofSubject | null} */ (null));
  const [policy, setPolicy] = useState(NO_POLICY);
  const [runDraw, busy, error, retry] = useTask();
  const [runFile, , fileError] = useTask();
  /** @param {string} index */
  const show = (index) => runDraw(async () => setSubject(await draw(Number(index), log)));

  useEffect(() => {
    if (status === 'in' && /^[0-9]{1,15}$/.test(argument)) show(argument);
  }, [argument, log, status]);

  /**
   * @param {string} wanted
   * @param {LogName} of
   */
  const onDraw = (wanted, of) =>
    wanted === argument && of === log ? show(wanted) : go('proof', wanted, of === 'control' ? { log: of } : {});
  /**
   * @param {Bytes} bytes
   * @param {string} name
   */
  const dropped = (bytes, name) =>
    runFile(async () => {
      try {
        // A policy is no JSON: it begins with a comment or a keyword.
        const isPolicy = /^\s*(#|log\s|witness\s|group\s|quorum\s)/.test(
          new TextDecoder().decode(bytes.slice(0, 4096)),
        );
        if (isPolicy && policy.text && !policy.from)
          throw new Error('You have entered a policy. Clear its field to use this one');
        if (isPolicy) return setPolicy(await policyOf(new TextDecoder().decode(bytes), name));
        setSubject(null);
        setSubject({ opened: await open(bytes), bytes, name });
      } catch (err) {
        throw new Error(`${name}: ${err.message}`);
      }
    });
  return html`
    <${Page} title="Proof"
      lead="A few hashes lead from one record to the chain root. Anyone who knows the company’s key can check
        them, without this server.">
      <div class="columns">
        <${DrawForm} ...${{ argument, log, onDraw, busy, error, retry }} />
        <${Drop} what="an evidence file" reads=${['evidence', 'saved']} largest=${LARGEST} onBytes=${dropped}
          onOther=${() => setSubject(null)}>
          <h2>Check evidence</h2>
          <p class="muted">Drop an evidence file here. This page checks it without the server.
            You can also check it with <a href="/verifier.html">a page that you can save</a>
            , attestd check, check.py and check.mjs.</p>
        <//>
      </div>
      <${Failure} error=${fileError} />
      ${subject && html`<${Subject} ...${{ subject, policy, setPolicy }} />`}
    <//>`;
}
