// @ts-check
// One record with everything that is in it. It is checked when it is opened, and the verdict stands
// above what it is about.
import { html, useEffect } from '../vendor/preact-htm.js';
import { excuse } from '../core/archives.js';
import { timeText } from '../core/format.js';
import { excused } from '../core/pruned.js';
import { href } from '../core/router.js';
import { useStore } from '../core/store.js';
import { isGreen } from '../core/verdict.js';
import { canonical } from '../lib/jcs.js';
import { refreshKey, session } from '../core/session.js';
import { keyAt } from '../lib/keyring.js';
import { checkRecord, preimage } from '../lib/record.js';
import { visible } from '../lib/visible.js';
import { Badge, Notice, Value, useResult } from './basic.js';
import { JSONView } from './json_view.js';
import { KeyHint, useAssess } from './key_trust.js';
import { Against } from './findings.js';
import { Principals } from './principals.js';
import { Archives } from './pruned.js';
import { Text } from './text.js';
import { WordCard } from './word.js';
import { lazy } from './lazy.js';

const CallView = lazy('', () => import('./call_view.js').then((m) => m.CallView));

// The actions of which the words say what a reader looks for. Of others the payload does.
const CALL = /^(tool\.|approval\.|run\.|git\.commit$|otel\.|session\.ended$|authorization\.(denied|allowed)$)/;

/** @param {{number: string, title: string, tone?: Tone, children?: Child}} props */
function Step({ number, title, tone, children }) {
  return html`
    <li class="check-step">
      <div class="card-head"><h4><span class="step-number">${number}</span> ${title}</h4>
        ${tone && html`<${Badge} tone=${tone}>${tone === 'bad' ? 'does not match' : 'matches'}<//>`}</div>
      ${children}
    </li>`;
}

/** @param {JSONNode | undefined} node */
function canonicalOf(node) {
  try {
    return node ? canonical(node) : '';
  } catch (err) {
    return `has no canonical form: ${err.message}`;
  }
}

/**
 * Every value on the way from the content to the verdict, computed in this page. result as of
 * checkRecord.
 * @param {{record: LogRecord, result: RecordResult, companyKey: CompanyKey,
 *   assess: (ok: boolean) => Tone}} props
 */
function CheckSteps({ record, result, companyKey, assess }) {
  return html`
    <ol class="stack">
      <${Step} number="1" title="Canonical payload (RFC 8785)">
        <pre class="code" tabindex="0" aria-label="Canonical payload">
          <${Text} of=${canonicalOf(record.payloadNode)} /></pre><//>
      <${Step} number="2" title="Preimage: index | timestamp | payload${record.delegation ? ' | delegation' : ''}">
        <pre class="code" tabindex="0" aria-label="Hash preimage">
          <${Text} of=${result.computed ? preimage(record) : ''} /></pre><//>
      <${Step} number="3" title="SHA-256 of the preimage" tone=${assess(result.hashOK)}>
        <dl class="facts"><dt>computed</dt><dd><code>${result.computed}</code></dd><dt>recorded</dt>
          <dd><code>${record.hash}</code></dd></dl>
      <//>
      <${Step} number="4" title="Ed25519 signature over the computed 32 bytes" tone=${assess(result.signatureOK)}>
        <dl class="facts"><dt>signature</dt><dd><code>${record.signature}</code></dd><dt>key</dt>
          <dd><code>${keyAt(companyKey, record.index).fingerprint}</code></dd></dl>
      <//>
    </ol>`;
}

/** @param {{result: RecordResult | null, verdict: Verdict | null, record: LogRecord}} props */
function Verdict({ result, verdict, record }) {
  if (!result || !verdict) return html`<p class="muted" role="status">Checking …</p>`;
  if (result.pruned && verdict.is !== 'another key')
    return html`<${Notice} kind=${verdict.tone}><strong>Payload pruned.</strong> The company has signed the hash of this
      record. What it said cannot be checked: the hash covers the payload, which the operator has moved into an archive.
      That the hash is in the log can still be proven.
      ${result.archive && html` <${Archives} of=${[result.archive]} />`}<${Against} of=${verdict.against} /><//>`;
  if (!result.ok) return html`<${Notice} kind="bad"><strong>Verification failed:</strong> ${result.reason}.<//>`;
  const { tone, own, is, against } = verdict;
  if (is === 'another key')
    return html`<${Notice} kind="bad">
    <strong>Signed by another key</strong> than the one that you confirmed for ${record.companyId}.<//>`;
  return html`<${Notice} kind=${tone}>
  ${isGreen(own) ? 'This record is exactly what the company signed.'
    : 'This record is exactly what the holder of this key signed.'}<${Against} of=${against} /><//>`;
}

/**
 * A value that the page Records searches for.
 * @param {{name: string, value: string}} props
 */
const Only = ({ name, value }) =>
  html`<${Text} of=${value} /> <a class="small nowrap" href=${href('records', '', { [name]: value })}
    aria-label="find all of ${name} ${visible(value)}">find all</a>`;

/**
 * What checkRecord says of a record; one that was pruned is excused by the control log of the
 * company that is signed in, and by no other.
 * @param {LogRecord} record
 * @param {CompanyKey} key
 * @returns {Promise<RecordResult>}
 */
async function checkShown(record, key) {
  const result = await checkRecord(record, key);
  if (!result.pruned) return result;
  if (session.get().company?.companyId !== key.companyId) return excused(result, record.index, []);
  return excuse([result], [record]).then(([found]) => found, ({ message }) =>
    ({ ...result, pruned: false, reason: `which archive has its payload was not found out: ${message}` }));
}

/**
 * companyKey: {companyId, fingerprint, prepared, ring}.
 * @param {{record: LogRecord, companyKey: CompanyKey, log?: LogName}} props
 */
export function RecordView({ record, companyKey, log = 'actions' }) {
  const assess = useAssess(companyKey);
  const result = useResult(() => checkShown(record, companyKey), [record, companyKey]);
  const about = { log, index: record.index, pruned: result?.pruned };
  const verdict = result && assess(result.ok, about);
  const tone = verdict?.tone ?? '';
  /** @param {boolean} ok */
  const tones = (ok) => assess(ok, about).tone;
  // The key may have been rotated since it was asked for: a newer one comes with the session.
  useEffect(() => {
    if (result && (result.hashOK || record.pruned) && !result.signatureOK)
      refreshKey(companyKey.companyId, record.index).catch(() => {});
  }, [result]);
  const { delegation } = record;
  const isCall = CALL.test(record.actionType);
  const { company } = useStore(session);
  // The control log that says who signed it is that of the company that is signed in.
  const asks = verdict && log === 'actions' && company?.companyId === record.companyId && result.ok;
  return html`
    <section class="stack tight" data-check=${tone}>
      <${Verdict} ...${{ result, verdict, record }} />
      ${tone === 'warn' && html`<${KeyHint} keyOf=${companyKey} />`}
    </section>
    ${(isCall || record.decision) && html`<${CallView} ...${{ record, isCall }} />`}
    ${asks && html`<${WordCard} of=${record} record=${verdict} />`}
    <dl class="facts">
      ${!record.pruned && html`<dt>agent</dt><dd><${Only} name="agent" value=${record.agentId} /></dd>
      <dt>action</dt><dd><${Only} name="action" value=${record.actionType} /></dd>`}
      <dt>time</dt><dd title=${record.timestamp}>${timeText(record.timestamp, 23)}</dd>
      ${!record.pruned && html`<dt>company</dt><dd><${Text} of=${record.companyId} /></dd>`}
    </dl>
    ${record.pruned ? html`<section class="stack tight"><h3>Payload</h3>
      <p class="muted">${result?.archive ? 'Payload pruned. Its operator has the archive.'
        : 'The server gives no payload.'}</p></section>`
      : html`<details class="payload" open=${!isCall}><summary>JSON</summary>
        <${JSONView} node=${record.inner} source=${record.source} what="payload" /></details>`}
    ${delegation && html`
      <section class="stack"><h3>Delegation</h3><${Principals} chain=${delegation.chain} />
        <p class="small muted">Token <code><${Text} of=${delegation.tokenId} /></code>
          . A delegation proves that these principals were asserted, not that anyone approved the action.</p>
      </section>`}
    <section class="stack tight"><h3>Hash</h3><${Value} value=${record.hash} what="hash" /></section>
    <section class="stack tight"><h3>Signature</h3><${Value} value=${record.signature} what="signature" /></section>
    <div class="buttons"><a class="button" href=${href('proof', record.index)}>Show proof</a>
      ${!record.pruned && html`<a class="button" href=${href('agents', record.agentId, { record: record.index })}>
        Authorization at that time</a>`}</div>
    ${result && !record.pruned && html`<details class="steps"><summary>Verification steps</summary>
    <${CheckSteps} ...${{ record, result, companyKey, assess: tones }} /></details>`}`;
}
