// What a key or client may do and until when: how it is chosen for a new one, and how it is shown.
import { html, useState } from '../vendor/preact-htm.js';
import * as answers from '../core/answers.js';
import { call } from '../core/api.js';
import { localTime } from '../core/format.js';
import { Field } from './basic.js';

const ROLES = [['admin', 'admin: everything'], ['writer', 'writer: attest and read'], ['reader', 'reader: read only']];
const LIFETIMES = [['', 'never'], ['1', 'in a day'], ['7', 'in 7 days'], ['30', 'in 30 days'], ['90', 'in 90 days'], ['365', 'in a year']];
const DAY = 24 * 60 * 60 * 1000;

/** The fields of a form for a new key or client, and a function for the members that they add to its request. */
export function useGrant() {
  const [role, setRole] = useState('admin');
  const [days, setDays] = useState('');
  const choice = (name, label, options, value, set) => html`
    <${Field} label=${label}>${(p) => html`
      <select ...${p} class="input" name=${name} value=${value} onChange=${(e) => set(e.target.value)}>
        ${options.map(([option, text]) => html`<option value=${option}>${text}</option>`)}</select>`}<//>`;
  const fields = html`${choice('role', 'Role', ROLES, role, setRole)} ${choice('expires', 'Expires', LIFETIMES, days, setDays)}`;
  const members = () => ({ role, expiresAt: days ? new Date(Date.now() + Number(days) * DAY).toISOString() : null });
  return [fields, members];
}

/** What each credential of the company was made for, by client ID or by the fingerprint of the key. */
export async function grants() {
  const { credentials } = await call(answers.credentialList, 'GET', '/v1/credentials');
  return new Map(credentials.map((c) => [c.clientId ?? c.fingerprint, c]));
}

export const Grant = ({ of }) => of && html`
  ${of.role}${of.expiresAt && html`<br />
    <span class="small muted nowrap" title=${of.expiresAt}>${new Date(of.expiresAt) > new Date() ? 'until' : 'expired'} ${localTime(of.expiresAt).split(' ')[0]}</span>`}`;
