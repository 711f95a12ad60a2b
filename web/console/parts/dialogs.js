// @ts-check
// Modal dialogs: the browser's own <dialog> keeps the focus inside and closes on Escape.
import { html, useLayoutEffect, useRef, useState } from '../vendor/preact-htm.js';
import { visible } from '../lib/visible.js';
import { Failure, useTask } from './basic.js';
import { Text } from './text.js';

/** A ref for a <dialog>, which is open while it is there. */
export function useModal() {
  const ref = useRef(null);
  // Before the next paint, so that no key pressed meanwhile goes to the page behind.
  useLayoutEffect(() => {
    const dialog = ref.current;
    const back = /** @type {HTMLElement} */ (document.activeElement);
    dialog.showModal();
    return () => {
      dialog.remove(); // while it is open nothing else takes the focus
      if (back.isConnected && back !== document.body) back.focus();
      else /** @type {HTMLElement | null} */ (document.querySelector('main h1'))?.focus({ preventScroll: true });
    };
  }, []);
  return ref;
}

/**
 * A panel from the side.
 * @param {{title: string, onClose: () => void, children?: Child}} props
 */
export function Drawer({ title, onClose, children }) {
  const ref = useModal();
  /** @param {Event} event */
  const outside = (event) => event.target === ref.current && onClose();
  return html`
    <dialog class="drawer" ref=${ref} aria-label=${visible(title)} onClose=${onClose} onClick=${outside}>
      <div class="drawer-head">
        <h2 tabindex="-1" autofocus><${Text} of=${title} /></h2>
        <button type="button" class="button small" onClick=${onClose}>Close</button>
      </div>
      <div class="drawer-body">${children}</div>
    </dialog>`;
}

/**
 * Asks before something that cannot be undone. act may fail; its error is shown in the dialog.
 * needsReason: the most characters of a reason without which it is not done.
 * @param {{title: string, action: string, act: (reason: string) => unknown, onClose: () => void,
 *   reasonLabel?: string, needsReason?: number, children?: Child}} props
 */
export function Confirm({ title, action, act, onClose, reasonLabel, needsReason, children }) {
  const ref = useModal();
  const [run, busy, error] = useTask();
  const [reason, setReason] = useState('');
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    run(async () => {
      await act(reason);
      onClose();
    });
  };
  return html`
    <dialog class="confirm" ref=${ref} aria-label=${visible(title)} onClose=${onClose}>
      <form onSubmit=${submit}>
        <h2 tabindex="-1" autofocus><${Text} of=${title} /></h2>
        <div>${children}</div>
        ${reasonLabel && html`
          <label class="field"><span class="label">${reasonLabel}</span>
            <input class="input" name="reason" required=${Boolean(needsReason)} maxlength=${needsReason} value=${reason}
              onInput=${(e) => setReason(e.target.value)} /></label>`
        }
        <${Failure} error=${error} />
        <div class="buttons">
          <button class="button danger primary" disabled=${busy}>${action}</button>
          <button type="button" class="button" onClick=${onClose}>Cancel</button>
        </div>
      </form>
    </dialog>`;
}
