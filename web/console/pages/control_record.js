// @ts-check
// One record of the control log, checked when it is opened.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { change } from '../core/control.js';
import { checkControl } from '../core/control_log.js';
import { evidenceOf } from '../core/evidence.js';
import { timeText } from '../core/format.js';
import { href } from '../core/router.js';
import { useSignedIn } from '../core/session.js';
import { isGreen } from '../core/verdict.js';
import { keyAt } from '../lib/keyring.js';
import { visible } from '../lib/visible.js';
import { Failure, Notice, Value, useTask } from '../parts/basic.js';
import { By } from '../parts/by.js';
import { ControlWords, aboutOf, kindName } from '../parts/control_words.js';
import { Drawer } from '../parts/dialogs.js';
import { JSONView } from '../parts/json_view.js';
import { Against } from '../parts/findings.js';
import { KeyHint, useAssess } from '../parts/key_trust.js';
import { save } from '../parts/save.js';

/** @param {{check: {ok: boolean, reason: string}, verdict: Verdict, companyKey: NamedKey}} props */
function Verdict({ check, verdict: { tone, own, is, against }, companyKey }) {
  return html`
    <section class="stack tight" data-check=${tone}>
      <${Notice} kind=${tone}>${
        !check.ok
          ? html`<strong>Verification failed:</strong> ${check.reason}.`
          : is === 'another key'
            ? html`<strong>Signed by another key</strong> than the one that you confirmed.`
            : html`${isGreen(own) ? 'This record is exactly what the company signed.'
              : 'This record is exactly what the holder of this key signed.'}<${Against} of=${against} />`
      }<//>
      ${tone === 'warn' && html`<${KeyHint} keyOf=${companyKey} />`}
    </section>`;
}

/**
 * Where the thing that was changed is shown.
 * @param {{subject: string, kind: string, name: string}} props
 */
function About({ subject, kind, name }) {
  const more = html`<a href=${href('control', '', { subject })}>all changes to it</a>`;
  if (kind === 'agent')
    return html`<a href=${href('agents', name)}>${visible(subject)}</a>
    , its <a href=${href('records', '', { agent: name })}>records</a>, ${more}`;
  if (kind === 'passport') return html`<a href=${href('passports')}>${visible(subject)}</a>, ${more}`;
  if (kind === 'api-key' || kind === 'oauth-client')
    return html`<a href=${href('keys')}>${visible(subject)}</a>
    , <a href=${href('control', '', { by: name })}>changes made with it</a>, ${more}`;
  return html`${visible(subject)}, ${more}`;
}

/** @param {OpenedChange} props */
function Content({ record, about, check, companyKey }) {
  const assess = useAssess(companyKey);
  const [run, busy, error] = useTask();
  const { subject, kind, name, by } = about;
  const evidence = () => run(async () => {
    const { name, text } = await evidenceOf(record.index, 'control');
    save(name, 'application/json', text);
  });
  return html`
    <${Verdict} check=${check} verdict=${assess(check.ok, { log: 'control', index: record.index })}
      companyKey=${companyKey} />
    <p><${ControlWords} change=${{ action: record.actionType, ...record }} />.</p>
    <dl class="facts">
      <dt>subject</dt><dd><${About} ...${{ subject, kind, name }} /></dd>
      <dt>changed by</dt><dd><${By} by=${by} />
        ${by !== null && html`, <a href=${href('control', '', { subject: by })}>about this credential</a>`}</dd>
      <dt>time</dt><dd title=${record.timestamp}>${timeText(record.timestamp, 23)}</dd>
      <dt>kind</dt><dd>${kindName(record.actionType)} <span class="muted">(${visible(record.actionType)})</span></dd>
      <dt>written by</dt><dd>${visible(record.agentId)}</dd>
      <dt>signing key</dt><dd><code>${keyAt(companyKey, record.index).fingerprint}</code></dd>
    </dl>
    <section class="stack tight"><h3>Payload</h3>
      <${JSONView} node=${record.inner} source=${record.source} what="payload" /></section>
    <section class="stack tight"><h3>Hash</h3><${Value} value=${record.hash} what="hash" /></section>
    <section class="stack tight"><h3>Signature</h3><${Value} value=${record.signature} what="signature" /></section>
    <div class="buttons"><button type="button" class="button" disabled=${busy} onClick=${evidence}>
      Save as evidence</button></div>
    <${Failure} error=${error} />`;
}

/** @param {{index: number, onClose: () => void}} props */
export function OpenChange({ index, onClose }) {
  const { key } = useSignedIn();
  const [opened, setOpened] = useState(/** @type {OpenedChange | null} */ (null));
  const [run, , error, retry] = useTask();
  useEffect(() => {
    setOpened(null);
    run(async () => {
      const record = await change(index);
      if (!record) throw new Error(`There is no control record ${index}.`);
      const { key: companyKey, results: [check] } = await checkControl([record]);
      setOpened({ record, companyKey, check, about: aboutOf(record) }); // which throws where it names nothing
    });
  }, [index, key]);
  return html`
    <${Drawer} title="Control record ${index}" onClose=${onClose}>
      <${Failure} error=${error} retry=${retry} />
      ${opened && html`<${Content} ...${opened} />`}
    <//>`;
}
