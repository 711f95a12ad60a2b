// @ts-check
// Ctrl-K: a field in which one types where to go.
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { agentPage, agentsAsked } from '../core/agents.js';
import { call } from '../core/api.js';
import { destinations } from '../core/destinations.js';
import { go } from '../core/router.js';
import { savedSearches, searchesOf } from '../core/saved_searches.js';
import { session } from '../core/session.js';
import { useStore } from '../core/store.js';
import { useModal } from './dialogs.js';
import { Text } from './text.js';

const TYPING = 200; // ms without a key before agents are searched for
const AGENTS = 6;

/**
 * The agents whose ID contains a text; none without a sign-in, or the server does not answer.
 * @param {string} q
 * @param {boolean} signedIn
 */
function useAgents(q, signedIn) {
  const [found, setFound] = useState(/** @type {string[]} */ ([]));
  useEffect(() => {
    if (!q || !signedIn) return setFound([]);
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      const asked = { q, status: '' };
      const query = new URLSearchParams({ q, limit: String(AGENTS) });
      try {
        const { agents } = await call(agentPage, 'GET', `/v1/agents?${query}`, {
          asked: agentsAsked(asked),
          signal: stop.signal,
        });
        setFound(agents.map(({ agentId }) => agentId));
      } catch {
        if (!stop.signal.aborted) setFound([]);
      }
    }, TYPING);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [q, signedIn]);
  return found;
}

/** @param {{pages: {id: string, name: string}[], onClose: () => void}} props */
export function Palette({ pages, onClose }) {
  const ref = useModal();
  const list = useRef(null);
  const [typed, setTyped] = useState('');
  const [chosen, setChosen] = useState(0);
  const { status, company } = useStore(session);
  const saved = useStore(savedSearches);
  const searches = company && status === 'in' ? searchesOf(company.companyId, saved) : [];
  const agents = useAgents(typed.trim(), status === 'in');
  const all = destinations(typed, pages, agents, searches);
  const at = Math.min(chosen, all.length - 1);
  useEffect(() => { list.current.children[at]?.scrollIntoView({ block: 'nearest' }); }, [at]);
  /** @param {Destination} to */
  const open = (to) => {
    onClose();
    go(to.page, to.argument, to.query);
  };
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    if (event.key === 'ArrowDown') setChosen((at + 1) % all.length);
    else if (event.key === 'ArrowUp') setChosen((at + all.length - 1) % all.length);
    else if (event.key === 'Enter' && all[at]) open(all[at]);
    else return;
    event.preventDefault();
  };
  return html`
    <dialog class="palette" ref=${ref} aria-label="Go to" onClose=${onClose}
      onClick=${(/** @type {Event} */ e) => e.target === ref.current && onClose()}>
      <input class="input" type="text" role="combobox" aria-label="Go to a page, a record, a saved search or an agent"
        autofocus aria-expanded="true" aria-controls="palette-list" autocomplete="off" spellcheck="false"
        aria-activedescendant=${all.length ? `palette-${at}` : undefined}
        placeholder="Page, record number, hash, search, agent" value=${typed} onKeyDown=${onKeyDown}
        onInput=${(/** @type {Happening} */ e) => {
          setTyped(e.target.value);
          setChosen(0);
        }} />
      <ul id="palette-list" role="listbox" aria-label="Places" ref=${list}>${all.map((to, i) => html`
        <li key=${`${to.kind} ${to.name}`} id="palette-${i}" role="option" aria-selected=${i === at ? 'true' : 'false'}
          onClick=${() => open(to)} onPointerMove=${() => i !== at && setChosen(i)}>
          <span class="small muted">${to.kind}</span> <${Text} of=${to.name} /></li>`)}</ul>
    </dialog>`;
}
