// @ts-check
// Text from outside as content of the page: what would not be seen is marked, and no text turns the
// order of the text next to it.
import { html } from '../vendor/preact-htm.js';
import { pieces } from '../lib/visible.js';

const PLAIN = /^[\n\t\x20-\x7e]*$/;

/**
 * The children of an element or component, in which each text is shown so.
 * @param {Child} children
 * @returns {Child}
 */
export function withText(children) {
  if (Array.isArray(children)) return children.map(withText);
  if (typeof children !== 'string' || PLAIN.test(children)) return children;
  return html`<bdi>
  ${pieces(children).map(({ shown, unseen }) => (unseen ? html`<span class="unseen">${shown}</span>` : shown))}</bdi>`;
}

/**
 * of: a text. Where an attribute is to hold it, visible of lib/visible.js gives the same as a
 * string.
 * @param {{of: Child}} props
 */
export const Text = ({ of }) => withText(of);
