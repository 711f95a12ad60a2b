// @ts-check
// The API's reference, from the document that the service itself serves: one resource at a time,
// with what applies to all of them first.
import { call } from '../core/api.js';
import { NOTHING } from '../core/asked.js';
import { readLogs } from '../core/growth.js';
import { openAPI } from '../core/openapi.js';
import { href } from '../core/router.js';
import { session } from '../core/session.js';
import { useStore } from '../core/store.js';
import { Failure, Notice, Page, useTask } from '../parts/basic.js';
import { Markdown } from '../parts/markdown.js';
import { html, useEffect, useLayoutEffect, useMemo, useState } from '../vendor/preact-htm.js';
import { Contents } from './reference_contents.js';
import { Method, Operation, Path } from './reference_operation.js';

const DOCUMENT = '/v1/openapi.json';
/** @type {Reference | null} */
let known = null; // the document, once it was read

/**
 * What pieces of prose mean: `GET /v1/chain` an operation, *Errors* a section or a resource.
 * @param {Reference} shown
 * @returns {Refer}
 */
function referrer({ resources, sections, places }) {
  /** @type {Map<string, string>} */
  const links = new Map();
  for (const { id, name } of [...resources, ...sections]) links.set(`em ${name}`, id);
  for (const { operation } of places.values())
    if (operation) links.set(`code ${operation.method} ${operation.path}`, operation.id);
  return (type, text) => {
    const id = links.get(`${type} ${text}`);
    return id === undefined ? undefined : href('reference', id);
  };
}

/** @param {{op: Operation}} props */
const Line = ({ op }) =>
  html`<li><a class="op-line" href=${href('reference', op.id)}><${Method} name=${op.method} /><span>${op.summary}</span>
  <${Path} path=${op.path} /></a></li>`;

/** @param {{shown: Reference, refer: Refer}} props */
function Overview({ shown, refer }) {
  return html`
    <div class="page-head">
      <h1 tabindex="-1">API reference</h1>
      <p class="lead">Version ${shown.version}
        , from this server’s <a href=${DOCUMENT} target="_blank" rel="noopener">OpenAPI 3.1 document</a>.</p>
    </div>
    <div class="resource-grid">
      ${shown.resources.map(({ id, name, operations }) => html`
        <section class="card">
          <h2><a href=${href('reference', id)}>${name}</a></h2>
          <ul>${operations.map((op) => html`<${Line} op=${op} />`)}</ul>
        </section>`)}
    </div>
    <${Markdown} text=${shown.description} refer=${refer} />`;
}

/** @param {{resource: Resource, shown: Reference, refer: Refer, own: Query}} props */
const Resource = ({ resource, shown, refer, own }) => html`
  <div class="page-head"><h1 tabindex="-1" id="at-${resource.id}">${resource.name}</h1></div>
  ${resource.operations.length > 1
    && html`<ul class="card op-lines">${resource.operations.map((op) => html`<${Line} op=${op} />`)}</ul>`}
  <${Markdown} text=${resource.description} refer=${refer} />
  ${resource.operations.map((op) => html`<${Operation} key=${op.id} op=${op} schemas=${shown.schemas} refer=${refer}
    own=${own} />`)}`;

// What requests name in place of an example: the company that is signed in and, once it is known,
// its log of actions.
function useOwn() {
  const { company } = useStore(session);
  const [own, set] = useState(/** @type {Query} */ ({}));
  useEffect(() => {
    set(company ? { companyId: company.companyId } : {});
    if (company)
      readLogs()
        .then(([{ logId }]) => set((before) => ({ ...before, logId })))
        .catch(() => {}); // then its example stays
  }, [company]);
  return own;
}

/** @param {string} id */
function arrive(id) {
  const place = id ? document.getElementById(`at-${id}`) : null;
  if (!place || place.tagName === 'H1') scrollTo(0, 0);
  else place.scrollIntoView();
  return place;
}

/**
 * A link to what is shown already changes no URL, and still leads there.
 * @param {Happening} event
 */
const scrollToLink = (event) => {
  /** @type {HTMLAnchorElement | null} */
  const link = event.target.closest?.('a[href^="#/reference"]');
  if (link && link.hash === location.hash) arrive(decodeURIComponent(link.hash.split('/')[2] ?? ''));
};

/** @param {{shown: Reference, argument: string}} props */
function Shown({ shown, argument }) {
  const { resource } = shown.places.get(argument) ?? {};
  const refer = useMemo(() => referrer(shown), [shown]);
  const own = useOwn();
  useLayoutEffect(() => {
    const place = arrive(argument) ?? document.querySelector('.reference h1');
    /**
     * @type {HTMLElement | null} */ (place)?.focus({ preventScroll: true });
  }, [argument]);
  return html`
    <div class="reference" onClick=${scrollToLink}>
      <${Contents} shown=${shown} resource=${resource} argument=${argument} />
      <div class="reference-main">
        ${argument && !shown.places.has(argument)
          && html`<${Notice} kind="warn">The reference has no “${argument}”. This is the overview.<//>`}
        ${resource
          ? html`<${Resource} key=${resource.id} resource=${resource} shown=${shown} refer=${refer} own=${own} />`
            : html`<${Overview} shown=${shown} refer=${refer} />`}
      </div>
    </div>`;
}

/** @param {{argument: string}} props */
export function Reference({ argument }) {
  const [shown, show] = useState(known);
  const [run, busy, error] = useTask();
  const load = () => run(async () => {
    known = await call(openAPI, 'GET', DOCUMENT, { asked: NOTHING });
    show(known);
  });
  useEffect(() => { if (!known) load(); }, []);
  if (shown) return html`<${Shown} shown=${shown} argument=${argument} />`;
  return html`
    <${Page} title="API reference">
      <${Failure} error=${error} />
      ${error ? html`<div class="buttons">
      <button type="button" class="button" disabled=${busy} onClick=${load}>Retry</button></div>`
        : html`<p class="muted">Reading the server’s API document …</p>`}
    <//>`;
}
