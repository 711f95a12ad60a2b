// @ts-check
// The mark of a row: only an exception has one. That all is well is said above every page, once.
import { html } from '../vendor/preact-htm.js';
import { Badge } from './basic.js';

/**
 * of: the verdict on the row's record.
 * @param {{of: Verdict}} props
 */
export const RowMark = ({ of: { tone, is } }) =>
  (is === 'checked' ? html`<span class="visually-hidden">${is}</span>` : html`<${Badge} tone=${tone}>${is}<//>`);
