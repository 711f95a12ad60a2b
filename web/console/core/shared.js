// @ts-check
// A key that is to be stored: in the sessionStorage of its tab, for a reload, and handed to new
// tabs of this browser over a channel that only pages of this origin hear. It ends with the last
// tab; a browser that restores its tabs after a restart restores that too, unless somebody signed
// out before. Nothing of it is in localStorage. Signing out in one tab signs out in all of them.
const KEY = 'attestd.key';
const SINCE = 'attestd.key-since'; // when it was kept, beside it
// In localStorage: when somebody signed out. A tab that slept through it does not wake up signed
// in.
const ENDED = 'attestd.signed-out';

const channel = globalThis.BroadcastChannel && new BroadcastChannel('attestd.session');

/**
 * Keeps a credential, or forgets it where it is empty; in all tabs, if asked.
 * @param {string} credential
 * @param {boolean} [inAllTabs]
 */
export function storeCredential(credential, inAllTabs = false) {
  try {
    if (credential) {
      sessionStorage.setItem(KEY, credential);
      sessionStorage.setItem(SINCE, String(Date.now()));
    } else {
      sessionStorage.removeItem(KEY);
      sessionStorage.removeItem(SINCE);
    }
    if (inAllTabs) localStorage.setItem(ENDED, String(Date.now()));
  } catch { /* storage may be switched off: the key then lasts as long as the page */ }
  if (inAllTabs) channel?.postMessage({ type: 'ended' });
}

/**
 * The credential that this tab stored; empty where there is none, or where somebody has signed out
 * since.
 */
export function storedCredential() {
  try {
    if (Number(localStorage.getItem(ENDED)) < Number(sessionStorage.getItem(SINCE)))
      return sessionStorage.getItem(KEY) ?? '';
    sessionStorage.removeItem(KEY);
    sessionStorage.removeItem(SINCE);
  } catch { /* as above */ }
  return '';
}

/**
 * Speaks with the other tabs. given() is what a new tab may have, empty where nothing is stored;
 * taken(credential) is called once at most, with what another tab gives this one; ended() when
 * somebody signed out elsewhere.
 * @param {{given: () => string, received: (credential: string) => unknown, ended: () =>
 *   unknown}} tabs
 */
export function shareCredential({ given, received, ended }) {
  if (!channel) return;
  let asking = !storedCredential();
  channel.onmessage = ({ data }) => {
    if (data?.type === 'ended') {
      asking = false;
      ended();
    } else if (data?.type === 'asks' && given()) {
      channel.postMessage({ type: 'gives', credential: given() });
    } else if (data?.type === 'gives' && asking && typeof data.credential === 'string') {
      asking = false;
      received(data.credential);
    }
  };
  if (asking) channel.postMessage({ type: 'asks' });
}
