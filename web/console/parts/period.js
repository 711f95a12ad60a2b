// @ts-check
// The two ends of a time: fields in the zone that the reader chose, whose values are timestamps as
// the API has them.
import { html } from '../vendor/preact-htm.js';
import { bare } from '../core/format.js';
import { dateOf, zoneOf } from '../core/times.js';
import { Field } from './basic.js';

const TO_MINUTES = 16; // characters of a time
const TO_SECONDS = 19;

/**
 * A timestamp as a datetime-local field has it; '' for none.
 * @param {string} timestamp
 */
export const toField = (timestamp, length = TO_MINUTES) =>
  Number.isNaN(Date.parse(timestamp)) ? '' : bare(timestamp, length).replace(' ', 'T');

/**
 * The timestamp of what a datetime-local field has; '' where that is none.
 * @param {string} value
 */
export const fromField = (value) =>
  dateOf(`${value.slice(0, TO_SECONDS)}${value.length > TO_MINUTES ? '' : ':00'}.000`)?.toISOString() ?? '';

/**
 * A field for one time; set is called with a timestamp, or with '' where it is emptied.
 * @param {{label: string, name: string, value: string, set: (timestamp: string) => void,
 *   hint?: string, needed?: boolean, seconds?: boolean}} props
 */
export const TimeField = ({ label, name, value, set, hint, needed = false, seconds = false }) => html`
  <${Field} label="${label} (${zoneOf(value ? new Date(value) : undefined)})" hint=${hint}>
    ${(p) => html`<input ...${p} class="input" type="datetime-local" name=${name} max="9999-12-31T23:59"
      step=${seconds ? '1' : '60'} required=${needed} value=${toField(value, seconds ? TO_SECONDS : TO_MINUTES)}
      onChange=${(e) => set(fromField(e.target.value))} />`}<//>`;

/**
 * set({since}) or set({until}) is called with a timestamp, or with '' where a field is emptied.
 * @param {{since?: string, until?: string, set: (patch: {since?: string, until?: string}) =>
 *   void}} props
 */
export const PeriodFields = ({ since = '', until = '', set }) => html`
  <${TimeField} label="From" name="since" value=${since} set=${(/** @type {string} */ at) => set({ since: at })} />
  <${TimeField} label="To, exclusive" name="until" value=${until}
    set=${(/** @type {string} */ at) => set({ until: at })} />`;
