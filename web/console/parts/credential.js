// @ts-check
// A key or an OAuth client: its name, and its mark.
import { html } from '../vendor/preact-htm.js';
import { LONG, stateOf } from '../core/credentials.js';
import { bare } from '../core/format.js';
import { zoneOf } from '../core/times.js';
import { href } from '../core/router.js';
import { visible } from '../lib/visible.js';
import { withText } from './text.js';
import { table } from '../lib/table.js';

/**
 * The name of a credential as a string that may be seen.
 * @param {KeyOrClient} c
 */
export const nameOf = (c) => visible(c.label || c.clientId || 'no label');

/**
 * A credential by its name, as a link to its page. The name of one that is gone is its fingerprint.
 * @param {{fingerprint: string, of?: KeyOrClient}} props
 */
export const CredentialLink = ({ fingerprint, of }) =>
  html`<a href=${href('keys', fingerprint)}>
  ${of ? withText(of.label || of.clientId) || 'no label' : html`<code>${fingerprint}</code>`}</a>`;

/** @type {Record<string, string>} */
const STANDS_OUT = table({ expired: 'expired', unused: `unused for ${LONG} days`, never: 'never used' });

/**
 * expired, long unused or never used; nothing else is marked.
 * @param {{of: KeyOrClient, now: number}} props
 */
export function State({ of, now }) {
  const state = stateOf(of, now);
  return state && html`<span class="badge ${state === 'never' ? '' : 'mark'}">${STANDS_OUT[state]}</span>`;
}

/** @param {{of?: string, none: string}} props */
export const Day = ({ of, none }) =>
  of
    ? html`<span title=${of}><span class="nowrap">${bare(of, 10)}</span> ${zoneOf(new Date(of))}</span>`
    : html`<span class="muted">${none}</span>`;
