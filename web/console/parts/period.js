// @ts-check
// The two ends of a time: fields in the zone that the reader chose, whose values are timestamps as
// the API has them.
import { html } from '../vendor/preact-htm.js';
import { bare } from '../core/format.js';
import { dateOf, zoneOf } from '../core/times.js';
import { Field } from './basic.js';

/**
 * A timestamp as a datetime-local field has it; '' for none.
 * @param {string} timestamp
 */
export const toField = (timestamp) =>
  Number.isNaN(Date.parse(timestamp)) ? '' : bare(timestamp, 16).replace(' ', 'T');

/**
 * The timestamp of what a datetime-local field has; '' where that is none.
 * @param {string} value
 */
export const fromField = (value) => dateOf(`${value.slice(0, 16)}:00.000`)?.toISOString() ?? '';

/**
 * set({since}) or set({until}) is called with a timestamp, or with '' where a field is emptied.
 * @param {{since?: string, until?: string, set: (patch: {since?: string, until?: string}) =>
 *   void}} props
 */
export function PeriodFields({ since = '', until = '', set }) {
  /**
   * @param {string} label
   * @param {string} name
   * @param {string} value
   */
  const field = (label, name, value) => html`
    <${Field} label="${label} (${zoneOf(value ? new Date(value) : undefined)})">
      ${(p) => html`<input ...${p} class="input" type="datetime-local" name=${name} max="9999-12-31T23:59"
        value=${toField(value)} onChange=${(e) => set({ [name]: fromField(e.target.value) })} />`}<//>`;
  return html`${field('From', 'since', since)}${field('To, exclusive', 'until', until)}`;
}
