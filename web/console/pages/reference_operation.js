// @ts-check
// One operation of the reference: what it does, takes and answers; next to that the request,
// examples and the form to try it.
import { href } from '../core/router.js';
import { address, bodyOf, curl, plain } from '../lib/curl.js';
import { CopyButton, isOpen } from '../parts/basic.js';
import { Markdown } from '../parts/markdown.js';
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { Item, Schema } from './reference_schema.js';
import { TryIt } from './reference_try.js';
import { table } from '../lib/table.js';

/** @param {{name: string}} props */
export const Method = ({ name }) => html`<span class="method ${name.toLowerCase()}">${name}</span>`;

/**
 * A path that breaks before its slashes.
 * @param {{path: string}} props
 */
export const Path = ({ path }) => html`<code>${path.split(/(?=\/)/).map((part) => html`<wbr />${part}`)}</code>`;

/**
 * A request as in the document: required parameters have their examples, and the body its first
 * one.
 * @param {Operation} op
 * @returns {OperationRequest}
 */
function firstRequest(op) {
  /** @type {Record<string, string>} */
  const values = {};
  for (const p of op.parameters) if (p.required && p.example) values[p.name] = plain(p.example);
  return { values, type: op.body?.media[0]?.type, ...exampleBody(op.body?.media[0], 0) };
}

/**
 * @param {Media | undefined} media
 * @param {number} at
 */
function exampleBody(media, at) {
  const example = media?.examples[at];
  return { example: at, body: media && (example ? bodyOf(media.type, example.value) : '') };
}

/**
 * The parts of a request to an operation: {method, url, headers, body, credential}.
 * @param {Operation} op
 * @param {OperationRequest} request
 * @returns {PreparedRequest}
 */
export function requestOf(op, { values, type, body }) {
  const headers = op.parameters
    .filter((p) => p.in === 'header' && (values[p.name] ?? '') !== '')
    .map((p) => /** @type {[string, string]} */ ([p.name, values[p.name]]));
  const sent = op.body && body !== '' ? body : undefined;
  if (sent !== undefined) headers.push(['Content-Type', type ?? '']);
  return {
    method: op.method,
    url: new URL(address(op, values), location.origin).href,
    headers,
    body: sent,
    credential: op.credential === 'needed',
  };
}

/**
 * @param {Operation} op
 * @param {OperationRequest} request
 */
function curlOf(op, request) {
  const types = op.responses.flatMap(({ status, media }) => (/^2/.test(status) ? media : [])).map(({ type }) => type);
  const parts = requestOf(op, request);
  // A place that has no value yet is shown as {name}, not as its escape.
  return curl({
    ...parts,
    url: location.origin + address(op, request.values),
    binary: types.includes('application/octet-stream'),
    upgrade: Boolean(op.message),
  });
}

/**
 * @param {{label: string, value: string | number | undefined, options: [string | number,
 *   string][], onChoose: (value: string) => void}} props
 */
function Choice({ label, value, options, onChoose }) {
  return html`<select class="input small-select" aria-label=${label} value=${value}
    onChange=${(e) => onChoose(e.target.value)}>
    ${options.map(([id, name]) => html`<option value=${id}>${name}</option>`)}</select>`;
}

/** @param {{op: Operation, request: OperationRequest, change: ChangeRequest}} props */
function Request({ op, request, change }) {
  const media = op.body?.media ?? [];
  const current = media.find(({ type }) => type === request.type);
  const line = curlOf(op, request);
  return html`
    <div class="panel">
      <div class="panel-head"><h3>Request</h3>
        ${
          media.length > 1 &&
          html`<${Choice} label="Content type" value=${request.type}
            options=${media.map(({ type }) => [type, type.replace('application/', '')])}
          onChoose=${(/** @type {string} */ type) =>
            change({
              type,
              ...exampleBody(
                media.find((m) => m.type === type),
                0,
              ),
            })} />`
        }
        ${
          current && current.examples.length > 1 &&
          html`<${Choice} label="Example body" value=${request.example}
            options=${current.examples.map(({ name }, i) => [i, name])}
          onChoose=${(/** @type {string} */ at) => change(exampleBody(current, Number(at)))} />`
        }
        <${CopyButton} text=${line} what="the curl line" />
      </div>
      <pre class="code curl" tabindex="0" aria-label="curl for ${op.summary}">${line}</pre>
    </div>`;
}

/** @param {{op: Operation}} props */
function Examples({ op }) {
  const all = op.responses.flatMap(({ status, media }) =>
    media.flatMap(({ type, examples }) =>
      examples.map(({ name, value }) => ({
        label: `${status}${examples.length > 1 ? ` · ${name}` : ''}${media.length > 1
          ? ` · ${type.replace('application/', '')}` : ''}`,
        value,
      })),
    ),
  );
  const [at, choose] = useState(0);
  if (!all.length) return null;
  const text = plain(all[at].value);
  return html`
    <div class="panel">
      <div class="panel-head"><h3>Response</h3>
        <${Choice} label="Example response" value=${at} options=${all.map(({ label }, i) => [i, label])}
          onChoose=${(/** @type {string} */ i) => choose(Number(i))} />
        <${CopyButton} text=${text} what="the example" /></div>
      <pre class="code" tabindex="0" aria-label="Example response">${text}</pre>
    </div>`;
}

/** @param {{op: Operation, schemas: Schemas, refer: Refer}} props */
function Parameters({ op, schemas, refer }) {
  return ['path', 'query', 'header'].map((place) => {
    const own = op.parameters.filter((p) => p.in === place);
    return (
      own.length > 0 &&
      html`
      <div class="stack tight"><h3>${{ path: 'In the path', query: 'In the query', header: 'Headers' }[place]}</h3>
        <div class="members">
          ${own.map((p) => html`<${Item} ...${{ ...p, form: p.schema }} schemas=${schemas} refer=${refer} />`)}</div>
          </div>`
    );
  });
}

/** @param {{answer: OperationAnswer, schemas: Schemas, refer: Refer, opened: boolean}} props */
function Answer({ answer, schemas, refer, opened }) {
  const [open, setOpen] = useState(opened);
  const { status, description, headers, media } = answer;
  return html`
    <details class="answer" open=${opened} onToggle=${(/** @type {Event} */ e) => setOpen(isOpen(e))}>
      <summary><strong>${status}</strong> <span class="muted">
        ${description.split('\n')[0].replace(/[`*]/g, '').replace(/^- /, '')}</span></summary>
      ${
        open &&
        html`
        <div class="stack">
          <${Markdown} text=${description} refer=${refer} />
          ${media.map(({ type, schema }) => html`<${Schema} given=${schema} type=${type} schemas=${schemas}
            refer=${refer} />`)}
          ${
            headers.length > 0 &&
            html`<details><summary>${headers.length} headers</summary>
            <div class="members">
              ${headers.map(({ name, description: said, schema }) => html`<${Item} name=${name} description=${said}
                form=${schema} schemas=${schemas} refer=${refer} />`)}</div></details>`
          }
        </div>`
      }
    </details>`;
}

/** @type {Record<string, string>} */
const CREDENTIALS = table({ none: 'no credential', optional: 'with or without a credential' });

/** @param {{op: Operation, schemas: Schemas, refer: Refer, own: Query}} props */
export function Operation({ op, schemas, refer, own }) {
  const [request, set] = useState(() => firstRequest(op));
  /** @type {ChangeRequest} */
  const change = (patch) => set((before) => ({ ...before, ...patch }));
  useEffect(() => {
    const named = op.parameters
      .filter(({ name, required }) => required && own[name])
      .map(({ name }) => [name, own[name]]);
    if (named.length) set((before) => ({ ...before, values: { ...before.values, ...Object.fromEntries(named) } }));
  }, [own]);
  const done = op.responses.find(({ status }) => /^[12]/.test(status));
  return html`
    <section class="op" data-operation=${op.id} aria-labelledby="at-${op.id}">
      <div class="op-head">
        <h2 id="at-${op.id}" tabindex="-1">${op.summary}</h2>
        <a class="op-path" href=${href('reference', op.id)}><${Method} name=${op.method} />
          <${Path} path=${op.path} /></a>
        <div class="chips">
          <a class="chip" href=${href('reference', 'Authentication')}>
            ${CREDENTIALS[op.credential] ?? `role ${op.role}`}</a>
          <a class="chip" href=${href('reference', 'Rate-limits')}>tier ${op.tier}</a>
          ${op.addition && html`<a class="chip" href=${href('reference', 'Versions')}>addition</a>`}
        </div>
      </div>
      <div class="op-columns">
        <div class="op-intro"><${Markdown} text=${op.description} refer=${refer} /></div>
        <div class="op-text">
          <${Parameters} op=${op} schemas=${schemas} refer=${refer} />
          ${
            op.body &&
            html`
            <div class="stack tight"><h3>Body${op.body.required ? '' : ', optional'}</h3>
              ${op.body.description && html`<${Markdown} text=${op.body.description} refer=${refer} />`}
              ${op.body.media
                .filter(({ schema }, i, all) => all.findIndex((other) => other.schema?.$ref === schema?.$ref) === i)
                .map(
                  ({ type, schema }) => html`
                <${Schema} given=${schema} type=${type} schemas=${schemas} refer=${refer} />`,
                )}</div>`
          }
          ${op.message
            && html`<div class="stack tight"><h3>Messages</h3>
            <${Schema} given=${op.message} schemas=${schemas} refer=${refer} /></div>`}
          <div class="stack tight"><h3>Responses</h3>
            ${op.responses.map((answer) => html`<${Answer} answer=${answer} opened=${answer === done} schemas=${schemas}
              refer=${refer} />`)}</div>
        </div>
        <div class="op-side">
          <${Request} op=${op} request=${request} change=${change} />
          <${TryIt} op=${op} request=${request} change=${change} prepared=${() => requestOf(op, request)} />
          <${Examples} op=${op} />
        </div>
      </div>
    </section>`;
}
