// @ts-check
// Checkpoints and witnesses: how far both logs have come, who has signed that, and whether what was
// saved earlier is still a part of it.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { count, duration, timeText, plural } from '../core/format.js';
import { proveSince } from '../core/growth.js';
import { bothLogs, pinCheckpoint, newestCheckpoint } from '../core/logs.js';
import { cosignaturesOf, meets } from '../core/policy.js';
import { refreshKey, signedIn, useSignedIn } from '../core/session.js';
import { PART } from '../core/verdict.js';
import { hex } from '../lib/bytes.js';
import { visible } from '../lib/visible.js';
import { Badge, Failure, Notice, Page, Value, useNow, useResult, useTask } from '../parts/basic.js';
import { Against } from '../parts/findings.js';
import { KeyHint, useAssess } from '../parts/key_trust.js';
import { PolicyCard, usePolicy } from '../parts/policy.js';
import { save } from '../parts/save.js';
import { SavedCheckpoints } from './checkpoints_saved.js';

/**
 * A checkpoint that contradicts what the same server says of the log at the same time, in words; ''
 * where it does not.
 * @param {{size: bigint, root: Bytes}} checkpoint
 * @param {{size: number, root: string}} log
 */
function contradiction(checkpoint, { size, root }) {
  if (checkpoint.size > BigInt(size))
    return `It covers ${plural(Number(checkpoint.size), 'record')}, and the server now has only ${count(size)}: ` +
      `signed records are missing.`;
  if (checkpoint.size === BigInt(size) && hex(checkpoint.root) !== root)
    return 'The server reports another log root for the same number of records: it has two histories.';
  return '';
}

// Both logs with their newest checkpoints; logs are asked for again afterwards, for they may have
// grown.
async function readAll() {
  const { companyId } = signedIn().key;
  const key = await refreshKey(companyId);
  const logs = await bothLogs();
  const opened = await Promise.all(
    [logs.actions, logs.control].map((log) =>
      newestCheckpoint(log, key).then(
        (checkpoint) => ({ log, checkpoint, error: '' }),
        (error) => {
          if (error.status !== undefined) throw error;
          return { log, checkpoint: undefined, error: String(error.message) };
        },
      ),
    ),
  );
  const now = await bothLogs();
  for (const { log, checkpoint } of opened) if (checkpoint) pinCheckpoint(key, log.log, checkpoint, 'seen');
  await proveSince(key);
  return {
    key,
    logs: now,
    opened: opened.map(({ log, checkpoint, error }) =>
      ({ log, checkpoint, wrong: checkpoint ? contradiction(checkpoint, now[log.log]) : error })),
  };
}

/** @param {{line: CosignedLine, assess: Assess}} props */
function Cosignature({ line: { name, time, witness, failed }, assess }) {
  const now = useNow();
  return html`
    <li class="cosignature" data-witness=${witness} data-failed=${failed ? 'yes' : 'no'}>
      <strong>${visible(witness || name)}</strong>
      <${Badge} tone=${failed || witness ? assess(!failed, PART).tone : ''}>
        ${failed ? 'does not verify' : witness ? 'cosigned' : 'not in your policy'}<//>
      ${witness && witness !== name && html`<span class="small muted">as ${visible(name)}</span>`}
      ${time !== null && !failed
        && html`<span class="small muted" title=${new Date(time * 1000).toISOString()}>${witness ? '' : 'says: '}
        ${timeText(new Date(time * 1000).toISOString())}, ${duration(now - time)} ago</span>`}
    </li>`;
}

/**
 * @param {{checkpoint: OpenedCheckpoint, policy: Policy | null, origins: string[],
 *   assess: Assess}} props
 */
function Witnesses({ checkpoint, policy, origins, assess }) {
  const found = useResult(
    async () => ({
      lines: await cosignaturesOf(checkpoint, policy),
      verdict: policy && (await meets(policy, checkpoint, origins)),
    }),
    [checkpoint, policy],
  );
  if (!found) return null;
  const { lines, verdict } = found;
  return html`
    <section class="stack tight">
      <h3>Witnesses</h3>
      ${lines.length
        ? html`<ul class="stack tight">${lines.map((line) => html`<${Cosignature} ...${{ line, assess }} />`)}</ul>`
          : html`<p class="small muted">No witness has cosigned this checkpoint.</p>`}
      ${
        verdict
          ? html`<${Notice} kind=${assess(verdict.met, PART).tone}>
          <span data-met=${verdict.met ? 'yes' : 'no'}>
            ${verdict.met ? 'Your policy is met.' : `Your policy is not met: ${visible(verdict.reason)}.`}</span><//>`
          : lines.length > 0 && html`<p class="small muted">To verify them, save a policy that names the witnesses.</p>`
      }
    </section>`;
}

/**
 * @param {{opened: {log: ServiceLog, checkpoint?: OpenedCheckpoint, wrong: string},
 *   companyKey: CompanyKey, origins: string[], policy: Policy | null, busy: boolean, onAsk: () =>
 *   void}} props
 */
function LogCard({ opened: { log, checkpoint, wrong: contradicted }, companyKey, origins, policy, busy, onAsk }) {
  const assess = useAssess(companyKey);
  const { tone, is, against } = assess(!contradicted);
  const wrong =
    contradicted ||
    (against?.kind === 'rewritten' && against.log === log.log
      ? 'It is signed, but inconsistent with what this browser saw of this log: history was rewritten.'
      : '');
  const download = () => {
    if (!checkpoint) return;
    save(`${companyKey.companyId}-${log.log}-${checkpoint.size}.checkpoint.txt`, 'text/plain', checkpoint.signed);
    pinCheckpoint(companyKey, log.log, checkpoint);
  };
  return html`
    <section class="card" data-log=${log.log} data-checkpoint=${tone}>
      <div class="card-head"><h2>${log.log === 'actions' ? 'Actions' : 'Control log'}</h2>
        <${Badge} tone=${tone}>${wrong ? 'do not trust' : is === 'checked' ? 'signed' : is}<//></div>
      ${!wrong && against && html`<${Notice} kind="bad"><${Against} of=${against} /><//>`}
      ${wrong && html`<${Notice} kind="bad">
      ${checkpoint ? visible(wrong) : `The server’s checkpoint is invalid for this log: ${visible(wrong)}.`}<//>`}
      ${checkpoint && html`
        <dl class="facts">
          <dt>records</dt><dd><strong>${count(Number(checkpoint.size))}</strong></dd>
          <dt>signed by</dt><dd><code>${checkpoint.signer.fingerprint}</code></dd>
          <dt>origin</dt><dd><code>${visible(log.origin)}</code></dd>
        </dl>
        <div class="stack tight"><h3>Log root</h3><${Value} value=${hex(checkpoint.root)} what="log root" /></div>
        <${KeyHint} keyOf=${companyKey} />
        <${Witnesses} ...${{ checkpoint, policy, origins, assess }} />`}
      <div class="buttons">${checkpoint
        && html`<button type="button" class="button" disabled=${Boolean(wrong)} onClick=${download}>
        Download checkpoint</button>`}
        <button type="button" class="button" disabled=${busy} onClick=${onAsk}>Refresh</button></div>
      ${checkpoint
        && html`<details><summary class="small">Signed checkpoint</summary>
        <pre class="code" tabindex="0" aria-label="Signed checkpoint">${visible(checkpoint.signed)}</pre></details>`}
    </section>`;
}

/** @param {{actions: ServiceLog, control: ServiceLog}} logs */
const vkeyLines = (logs) =>
  [logs.actions, logs.control].flatMap(({ log, vkeys }) => [`# ${log}`, `log ${vkeys[0]}`]).join('\n');

export function Checkpoints() {
  const { key } = useSignedIn();
  const { policy } = usePolicy(key.companyId);
  const [found, setFound] = useState(/** @type {Awaited<ReturnType<typeof readAll>> | null} */ (null));
  const [run, busy, error] = useTask();
  const load = async () => {
    const all = await run(readAll);
    if (all) setFound(all);
  };
  useEffect(() => { load(); }, [key.companyId]);
  const origins = found && [found.logs.actions.origin, found.logs.control.origin];
  return html`
    <${Page} title="Checkpoints"
      lead="A checkpoint is the company’s signature over a whole log. If you keep one, you can detect when a record
        before it is changed, removed or added.">
      <${Failure} error=${error} retry=${load} />
      ${!found && busy && html`<p class="muted" role="status">Loading the checkpoints of both logs …</p>`}
      ${found && html`
        <div class="columns">
          ${found.opened.map((opened) => html`<${LogCard} key=${opened.log.log}
            ...${{ opened, companyKey: found.key, origins, policy, busy, onAsk: load }} />`)}</div>
        <div class="columns">
          <${SavedCheckpoints} companyKey=${found.key} logs=${found.logs} />
          <${PolicyCard} companyId=${found.key.companyId} lines=${vkeyLines(found.logs)} />
        </div>`}
    <//>`;
}
