// @ts-check
// Whose key it is: its fingerprint, whether it was confirmed, and the field that confirms it.
import { html, useState } from '../vendor/preact-htm.js';
import { findings } from '../core/findings.js';
import { href } from '../core/router.js';
import { session } from '../core/session.js';
import { useStore } from '../core/store.js';
import { confirm, forget, keyStateOf, trust } from '../core/trust.js';
import { assessWith } from '../core/verdict.js';
import { visible } from '../lib/visible.js';
import { Badge, Field } from './basic.js';
import { table } from '../lib/table.js';

/** @type {Partial<Record<KeyState, Tone>>} */
const TONES = table({ other: 'bad', unconfirmed: 'warn' }); // that a key is confirmed is no check of anything it signed
const SAYS = table({ confirmed: 'confirmed by you', other: 'not the known key', unconfirmed: 'not confirmed' });

/**
 * The state of a key: confirmed, other or unconfirmed. The component renders again when that
 * changes.
 * @param {NamedKey} key
 */
export const useKeyState = (key) => keyStateOf(key, useStore(trust));

/**
 * assessWith a key; the component renders again when what is confirmed changes, or what was found.
 * @param {NamedKey} key
 */
export const useAssess = (key) => assessWith(key, useStore(trust), useStore(findings));

/** @param {{keyOf: NamedKey}} props */
export const KeyBadge = ({ keyOf }) => {
  const is = useKeyState(keyOf);
  return html`<${Badge} tone=${TONES[is]}>${SAYS[is]}<//>`;
};

/**
 * A line about what was checked with a key; nothing where that key is confirmed. The company's own
 * is confirmed on its page.
 * @param {{keyOf: NamedKey}} props
 */
export function KeyHint({ keyOf }) {
  const is = useKeyState(keyOf);
  if (is === 'confirmed') return null;
  return html`<p class="small ${is === 'other' ? 'bad-text' : 'warn-text'}" data-key-state=${is}>
    ${keyOf.flaw ? visible(`The server’s list of keys is invalid: ${keyOf.flaw}.`)
      : is === 'other' ? 'This is not the key that you confirmed for this company, or that this browser remembers.'
        : 'Verified with a key that you haven’t confirmed, so nothing is green yet.'}
    ${session.get().key?.fingerprint === keyOf.fingerprint
      && html` <a href=${href('key')}>Compare its fingerprint</a>`}</p>`;
}

/**
 * A fingerprint in groups that the eye can follow; copied, it is in one piece.
 * @param {{of: {fingerprint: string}}} props
 */
export const Fingerprint = ({ of }) => {
  const [scheme, digest] = of.fingerprint.split(':');
  return html`<code class="fingerprint">${scheme}:
  ${digest.match(/.{1,4}/g)?.map((group) => html`<span>${group}</span>`)}</code>`;
};

/**
 * The field in which a fingerprint from another source is entered.
 * @param {{keyOf: NamedKey, action?: string}} props
 */
export function ConfirmKey({ keyOf, action = 'Compare' }) {
  const is = useKeyState(keyOf);
  const [typed, setTyped] = useState('');
  const [wrong, setWrong] = useState(false);
  if (is === 'confirmed') {
    return html`<div class="buttons"><${KeyBadge} keyOf=${keyOf} />
    <button type="button" class="button quiet small" onClick=${() => forget(keyOf)}>Remove confirmation</button></div>`;
  }
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    setWrong(!confirm(keyOf, typed));
  };
  return html`
    <form class="stack tight confirm-key" onSubmit=${submit}>
      <${Field} label="Fingerprint that ${visible(keyOf.companyId)} gave you"
        hint="Get it from another source: a contract, their website, their own attestd. A copy from this page or file
          proves nothing. What a confirmed key signed is shown in green.">
        ${(
          p,
        ) => html`<span class="confirm-line">
        <input ...${p} class="input mono" name="fingerprint" required autocomplete="off" spellcheck="false"
          placeholder="SHA256:…"
          value=${typed} onInput=${(e) => {
            setTyped(e.target.value);
            setWrong(false);
          }} /><button class="button">${action}</button></span>`}
      <//>
      ${wrong && html`<p class="small bad-text" role="alert">
      This fingerprint belongs to another key. Don’t trust what this key signed.</p>`}
    </form>`;
}
