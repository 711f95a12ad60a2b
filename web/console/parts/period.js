// The two ends of a time: fields in the reader's time zone, whose values are timestamps as the API has them.
import { html } from '../vendor/preact-htm.js';
import { Field } from './basic.js';

const two = (n) => String(n).padStart(2, '0');

/** A timestamp as a datetime-local field has it; '' for none. */
export function toField(timestamp) {
  const date = new Date(timestamp);
  if (!timestamp || Number.isNaN(date.getTime())) return '';
  return `${String(date.getFullYear()).padStart(4, '0')}-${two(date.getMonth() + 1)}-${two(date.getDate())}T${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** The timestamp of what a datetime-local field has; '' where that is none. */
export function fromField(value) {
  const date = new Date(value);
  return !value || Number.isNaN(date.getTime()) ? '' : date.toISOString();
}

/** set({since}) or set({until}) is called with a timestamp, or with '' where a field is emptied. */
export function PeriodFields({ since = '', until = '', set, names = ['From', 'Until'] }) {
  const field = (label, name, value) => html`
    <${Field} label=${label}>${(p) => html`<input ...${p} class="input" type="datetime-local" name=${name} max="9999-12-31T23:59" value=${toField(value)} onChange=${(e) => set({ [name]: fromField(e.target.value) })} />`}<//>`;
  return html`${field(names[0], 'since', since)}${field(names[1], 'until', until)}`;
}
