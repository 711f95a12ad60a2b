// @ts-check
// The mark of a row: only an exception has one. That all is well is said above every page, once.
import { html } from '../vendor/preact-htm.js';
import { isPlain } from '../core/verdict.js';
import { Badge } from './basic.js';

/**
 * of: the verdict on the row's record.
 * @param {{of: Verdict}} props
 */
export const RowMark = ({ of }) =>
  (isPlain(of) ? html`<span class="visually-hidden">${of.is}</span>` : html`<${Badge} tone=${of.tone}>${of.is}<//>`);
