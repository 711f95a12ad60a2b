// @ts-check
// "Try it": sends a request with the credential of the session. What may change something is shown
// first, and sent when that is confirmed.
import { href } from '../core/router.js';
import { session } from '../core/session.js';
import { useStore } from '../core/store.js';
import { sendRequest } from '../core/try_request.js';
import { plain } from '../lib/curl.js';
import { json, read } from '../lib/form.js';
import { Failure, Field, Notice, useTask, isOpen } from '../parts/basic.js';
import { Confirm } from '../parts/dialogs.js';
import { JSONView } from '../parts/json_view.js';
import { withText } from '../parts/text.js';
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';

/**
 * The answer as a JSON value where it is one.
 * @param {{type: string, text: string, cut: boolean}} answer
 */
function readJSON({ type, text, cut }) {
  if (cut || type !== 'application/json') return null;
  try {
    return read(json, text, 'answer');
  } catch {
    return null;
  }
}

/** @param {{answer: TriedAnswer}} props */
function Result({ answer }) {
  const value = readJSON(answer);
  return html`
    <div class="stack tight try-answer" data-status=${answer.status}>
      <div class="panel-head"><h4>Response ${answer.status}</h4>
        <span class="muted small">${answer.size} bytes · ${answer.ms} ms</span></div>
      ${value ? html`<${JSONView} ...${value} what="the response" />`
        : html`<pre class="code" tabindex="0" aria-label="the response">${withText(answer.text) || '(empty)'}</pre>`}
      ${answer.cut && html`<p class="muted small">The response was truncated.</p>`}
      <details><summary>${answer.headers.length} headers</summary>
        <dl class="facts">
          ${answer.headers.map(([name, given]) => html`<dt>${name}</dt><dd><code>${withText(given)}</code></dd>`)}</dl>
          </details>
    </div>`;
}

/**
 * Why an operation cannot be tried here, if so.
 * @param {Operation} op
 * @param {boolean} signedIn
 */
function obstacle(op, signedIn) {
  if (op.message)
    return html`WebSockets can’t be opened from here. <a href=${href('live')}>Live</a> shows this stream.`;
  // The address of a request is stored in more places than its headers and its body.
  if (op.parameters.some((p) => p.in === 'path' && p.name === 'key'))
    return html`This path contains a key, so it can’t be sent from here. Use <a href=${href('keys')}>Keys</a> to list
    and delete keys.`;
  if (op.credential === 'needed' && !signedIn)
    return html`This needs a credential: <a href=${href('start')}>sign in</a> first.`;
  return null;
}

/** @param {{op: Operation, request: OperationRequest, change: ChangeRequest}} props */
function Fields({ op, request, change }) {
  /**
   * @param {string} name
   * @returns {(e: Happening) => void}
   */
  const set = (name) => (e) => change({ values: { ...request.values, [name]: e.target.value } });
  return html`
    ${op.parameters.map((p) => html`
      <${Field} label=${`${p.name}${p.required ? '' : ', optional'}`}>
        ${(props) =>
          p.schema?.enum
            ? html`<select class="input" ...${props} name=${p.name} value=${request.values[p.name] ?? ''}
              required=${p.required} onChange=${set(p.name)}>
              <option value=""></option>${p.schema.enum
                .map(plain)
                .filter(Boolean)
                .map((one) => html`<option value=${one}>${one}</option>`)}</select>`
            : html`<input class="input mono" ...${props} name=${p.name} value=${request.values[p.name] ?? ''}
              placeholder=${p.example ? plain(p.example) : ''} spellcheck="false" autocomplete="off"
                required=${p.required} onInput=${set(p.name)} />`}
      <//>`,
    )}
    ${
      op.body &&
      html`
      <${Field} label="Body" hint=${request.type}>
        ${(props) => html`<textarea class="input" ...${props} name="body"
          rows=${Math.min(14, (request.body ?? '').split('\n').length + 1)} spellcheck="false" value=${request.body}
            onInput=${(e) => change({ body: e.target.value })}></textarea>`}
      <//>`}`;
}

/** @param {SenderProps} props */
function Sender({ op, request, change, prepared }) {
  const [answer, setAnswer] = useState(/** @type {TriedAnswer | null} */ (null));
  const [asked, ask] = useState(/** @type {PreparedRequest | null} */ (null));
  const [run, busy, error] = useTask();
  const abort = useRef(null);
  useEffect(() => () => abort.current?.abort(), []);
  /** @param {PreparedRequest} parts */
  const send = async (parts) => {
    abort.current = new AbortController();
    setAnswer(null);
    setAnswer(await sendRequest(parts, abort.current));
  };
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    const parts = prepared();
    if (op.method === 'GET') run(() => send(parts).catch((err) => { if (err.name !== 'AbortError') throw err; }));
    else ask(parts);
  };
  const shownURL = asked && new URL(asked.url);
  return html`
    <form class="stack" onSubmit=${submit}>
      <${Fields} op=${op} request=${request} change=${change} />
      <div class="buttons">
        <button class="button primary" disabled=${busy}>Send ${op.method}</button>
        ${busy && html`<button type="button" class="button" onClick=${() => abort.current?.abort()}>Stop</button>`}
        <span class="muted small">${op.credential === 'needed' ? 'with the credential of this session'
          : 'without a credential'}</span>
      </div>
      <${Failure} error=${error} />
    </form>
    <div role="status">${answer && html`<span class="visually-hidden">Response ${answer.status}</span>`}</div>
    ${answer && html`<${Result} answer=${answer} />`}
    ${asked && html`
      <${Confirm} title="Send this request?" action="Send ${asked.method}" act=${() => send(asked)}
        onClose=${() => ask(null)}>
        <div class="stack tight">
          <p>It may change data on this server.</p>
          <pre class="code" tabindex="0" aria-label="The request">
            ${`${asked.method} ${shownURL?.pathname}${shownURL?.search}${asked.headers.map(([name, value]) =>
              `\n${name}: ${value}`).join('')}${asked.body === undefined ? '' : `\n\n${asked.body}`}`}</pre>
        </div>
      <//>`}`;
}

/** @param {SenderProps} props */
export function TryIt(props) {
  const { status } = useStore(session);
  const [open, setOpen] = useState(false);
  const why = obstacle(props.op, status === 'in');
  return html`
    <details class="panel try" onToggle=${(/** @type {Event} */ e) => setOpen(isOpen(e))}>
      <summary>Try it</summary>
      ${open && (why ? html`<${Notice}>${why}<//>` : html`<${Sender} ...${props} />`)}
    </details>`;
}
