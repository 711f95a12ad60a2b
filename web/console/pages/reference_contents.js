// @ts-check
// The reference's contents and search, next to what is read.
import { search } from '../core/openapi.js';
import { go, href } from '../core/router.js';
import { html, useEffect, useMemo, useRef, useState } from '../vendor/preact-htm.js';
import { Method, Path } from './reference_operation.js';

const TYPED_INTO = 'input, textarea, select, [contenteditable], dialog';

/**
 * The place that is read now: the last one whose beginning has passed the upper part of the window.
 * @param {string[]} ids
 */
function useNear(ids) {
  const [near, set] = useState('');
  useEffect(() => {
    let waiting = 0;
    const update = () => {
      waiting = 0;
      const passed = ids.filter(
        (id) => (document.getElementById(`at-${id}`)?.getBoundingClientRect().top ?? Infinity) < innerHeight * 0.3,
      );
      set(passed.at(-1) ?? '');
    };
    const soon = () => { waiting ||= requestAnimationFrame(update); };
    addEventListener('scroll', soon, { passive: true });
    update();
    return () => {
      removeEventListener('scroll', soon);
      cancelAnimationFrame(waiting);
    };
  }, [ids]);
  return near;
}

/** @param {{resources: Resource[], query: string, setQuery: (query: string) => void}} props */
function Search({ resources, query, setQuery }) {
  const field = useRef(null);
  const list = useRef(null);
  useEffect(() => {
    /** @param {KeyboardEvent} event */
    const slash = (event) => {
      if (
        event.key !== '/' ||
        event.ctrlKey ||
        event.metaKey ||
        event.altKey ||
        /**
         * @type {Element} */ (event.target).closest?.(TYPED_INTO) ||
        document.querySelector('dialog[open]')
      )
        return;
      event.preventDefault();
      field.current.focus();
      field.current.select();
    };
    addEventListener('keydown', slash);
    return () => removeEventListener('keydown', slash);
  }, []);
  const found = useMemo(() => search(resources, query), [resources, query]);
  /** @param {KeyboardEvent} event */
  const step = (event) => {
    const links = [...list.current?.querySelectorAll('a') ?? []];
    const at = links.indexOf(document.activeElement);
    if (event.key === 'Escape') {
      setQuery('');
      field.current.focus();
    } else if (event.key === 'Enter' && at < 0 && found.length) go('reference', found[0].id);
    else if (event.key === 'ArrowDown' && links.length) links[Math.min(at + 1, links.length - 1)].focus();
    else if (event.key === 'ArrowUp' && at >= 0) (links[at - 1] ?? field.current).focus();
    else return;
    event.preventDefault();
  };
  return html`
    <search class="reference-search" onKeyDown=${step}>
      <label class="visually-hidden" for="reference-search">Search operations</label>
      <input class="input" id="reference-search" type="search" ref=${field} value=${query}
        placeholder="Search (press /)" autocomplete="off" spellcheck="false"
          onInput=${(e) => setQuery(e.target.value)} />
      <p class="visually-hidden" role="status">${query.trim() && `${found.length} found`}</p>
      ${
        query.trim() &&
        (found.length
          ? html`<ul class="found" ref=${list}>
          ${found.map((op) => html`<li><a href=${href('reference', op.id)}><span>${op.summary}</span>
          <small><${Method} name=${op.method} /> <${Path} path=${op.path} /></small></a></li>`)}</ul>`
          : html`<p class="muted small">No operation matches all of these words.</p>`)
      }
    </search>`;
}

/** @param {{shown: Reference, resource: Resource | undefined, argument: string}} props */
export function Contents({ shown, resource, argument }) {
  const [query, setQuery] = useState('');
  const [open, setOpen] = useState(false);
  const list = useRef(null);
  const ids = useMemo(
    () => (resource ? [...resource.sections, ...resource.operations] : shown.sections).map(({ id }) => id),
    [shown, resource],
  );
  const near = useNear(ids);
  useEffect(() => setOpen(false), [argument]);
  useEffect(() => {
    // Only the list scrolls, never the page.
    const current = list.current.querySelector('[aria-current="location"]');
    if (current)
      list.current.scrollTop +=
        Math.min(0, current.offsetTop - list.current.scrollTop) +
        Math.max(0, current.offsetTop + current.offsetHeight - list.current.scrollTop - list.current.clientHeight);
  }, [near, resource]);
  /**
   * @param {string} id
   * @param {Child} content
   */
  const link = (id, content) =>
    html`<li><a href=${href('reference', id)} aria-current=${id === near ? 'location' : undefined}>${content}</a></li>`;
  /** @param {Section[]} from */
  const sections = (from) => from.map(({ id, name }) => link(id, name));
  return html`
    <div class="reference-side">
      <${Search} resources=${shown.resources} query=${query} setQuery=${setQuery} />
      <button type="button" class="button small contents-button" aria-expanded=${open ? 'true' : 'false'}
        aria-controls="contents" onClick=${() => setOpen(!open)}>Contents</button>
      <nav class="contents ${open ? 'open' : ''}" id="contents" aria-label="Contents" ref=${list}
        hidden=${Boolean(query.trim())}>
        <a class="contents-head" href=${href('reference')} aria-current=${resource ? undefined : 'true'}>Overview</a>
        ${!resource && html`<ul>${sections(shown.sections)}</ul>`}
        ${shown.resources.map((one) => html`
          <a class="contents-head" href=${href('reference', one.id)}
            aria-current=${one === resource ? 'true' : undefined}>${one.name}</a>
          ${one === resource
            && html`<ul>${sections(one.sections)}
            ${one.operations.map((op) => link(op.id, html`<${Method} name=${op.method} /> ${op.summary}`))}</ul>`}`,
        )}
      </nav>
    </div>`;
}
