// @ts-check
// Pages and parts whose modules are loaded when they are first shown: what is heavy and of no use
// without a server.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { Failure, Page, useTask } from './basic.js';

const heading = () => /** @type {HTMLElement | null} */ (document.querySelector('main h1'));

/**
 * A component in place of one that load() resolves to. Once that is loaded it is shown at once.
 * title: of the page, '' where it is a part of one.
 * @param {string} title
 * @param {() => Promise<Component>} load
 * @returns {Component}
 */
export function lazy(title, load) {
  /** @type {Component | null} */
  let found = null;
  /** @param {object} props */
  return function Lazy(props) {
    const [shown, show] = useState({ held: false });
    const [run, busy, error] = useTask();
    const fetchIt = () =>
      run(async () => {
        found = await load().catch(() => {
          throw new Error(
            'This page could not be loaded: the server does not answer, or a proxy answered in its place.',
          );
        });
        show({ held: document.activeElement === heading() });
      });
    useEffect(() => {
      if (!found) fetchIt();
    }, []);
    useEffect(() => {
      if (shown.held) heading()?.focus({ preventScroll: true });
    }, [shown]); // it is another heading now
    if (found) return html`<${found} ...${props} />`;
    const waiting = html`
      <${Failure} error=${error} />
      ${error ? html`<div class="buttons">
        <button type="button" class="button" disabled=${busy} onClick=${fetchIt}>Retry</button></div>`
        : html`<p class="muted">Loading …</p>`}`;
    return title ? html`<${Page} title=${title}>${waiting}<//>` : waiting;
  };
}
