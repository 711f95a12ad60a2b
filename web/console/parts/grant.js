// @ts-check
// What a key or client may do and until when, as it is chosen for a new one.
import { html, useState } from '../vendor/preact-htm.js';
import { Field } from './basic.js';

const ROLES = [
  ['admin', 'admin: everything'],
  ['writer', 'writer: attest and read'],
  ['reader', 'reader: read only'],
];
const LIFETIMES = [
  ['', 'never'],
  ['1', 'in a day'],
  ['7', 'in 7 days'],
  ['30', 'in 30 days'],
  ['90', 'in 90 days'],
  ['365', 'in a year'],
];
const DAY = 24 * 60 * 60 * 1000;

/**
 * A field that chooses one of some options, [value, text].
 * @param {{name: string, label: string, options: [string, string][], value: string,
 *   set: (value: string) => void}} props
 */
export const Choice = ({ name, label, options, value, set }) => html`
  <${Field} label=${label}>${(p) => html`
    <select ...${p} class="input" name=${name} value=${value} onChange=${(e) => set(e.target.value)}>
      ${options.map(([option, text]) => html`<option value=${option}>${text}</option>`)}</select>`}<//>`;

/**
 * The fields of a form for a new key or client, and a function for the members that they add to
 * its request. What is chosen at first is what most programs need, and no more.
 * @returns {[import('../vendor/preact-htm.js').VNode, () => Record<string, string | null>]}
 */
export function useGrant() {
  const [role, setRole] = useState('writer');
  const [days, setDays] = useState('90');
  const fields = html`
    <${Choice} name="role" label="Role" options=${ROLES} value=${role} set=${setRole} />
    <${Choice} name="expires" label="Expires" options=${LIFETIMES} value=${days} set=${setDays} />`;
  const members = () => ({ role, expiresAt: days ? new Date(Date.now() + Number(days) * DAY).toISOString() : null });
  return [fields, members];
}
