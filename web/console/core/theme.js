// @ts-check
// Light, dark, or what the system says. Only the choice is remembered, and only in this browser.
import { store } from './store.js';

const NAME = 'attestd.theme';

export const theme = store({ choice: 'system' });

/** @param {string} choice */
export function choose(choice) {
  if (choice === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
  try {
    if (choice === 'system') localStorage.removeItem(NAME);
    else localStorage.setItem(NAME, choice);
  } catch { /* storage may be switched off; the choice then lasts as long as the page */ }
  theme.set({ choice });
}

export function restoreTheme() {
  try {
    const stored = localStorage.getItem(NAME);
    if (stored === 'light' || stored === 'dark') choose(stored);
  } catch { /* as above */ }
}
