// @ts-check
// Navigation, who is signed in, and the page that the URL names.
import { html, render, useEffect, useLayoutEffect, useRef, useState } from './vendor/preact-htm.js';
import { giveUpOnFailure } from './core/broken.js';
import { start as startStream, stop as stopStream } from './core/live.js';
import { href, route } from './core/router.js';
import { restore, session } from './core/session.js';
import { useStore } from './core/store.js';
import { chooseZone, times } from './core/times.js';
import { choose, restoreTheme, theme } from './core/theme.js';
import { engine } from './lib/ed25519.js';
import { Icon, Page } from './parts/basic.js';
import { lazy } from './parts/lazy.js';
import { News } from './parts/news.js';
import { SideBar, Views } from './parts/side_bar.js';
import { PrintHeader } from './parts/print_header.js';
import { SignInFirst } from './parts/sign_in.js';
import { TopBar } from './parts/top_bar.js';
import { Passports } from './pages/passports.js';
import { Proof } from './pages/proof.js';
import { Start } from './pages/start.js';
import { Verify } from './pages/verify.js';
import { table } from './lib/table.js';

// The modules of the pages that need no server are loaded at once, so that they work when there is
// none. Verify is one of them: it goes on with what it has read.
const PAGES = [
  { id: 'start', name: 'Overview', page: Start, open: true },
  { id: 'live', name: 'Live', page: lazy('Live', () => import('./pages/live.js').then((m) => m.Live)) },
  { id: 'records', name: 'Records', page: lazy('Records', () => import('./pages/records.js').then((m) => m.Records)) },
  {
    id: 'sessions',
    name: 'Sessions',
    page: lazy('Sessions', () => import('./pages/sessions.js').then((m) => m.Sessions)),
  },
  { id: 'proof', name: 'Proof', page: Proof, open: true },
  { id: 'verify', name: 'Verify', page: Verify },
  {
    id: 'approvals',
    name: 'Approvals',
    page: lazy('Approvals', () => import('./pages/approvals.js').then((m) => m.Approvals)),
  },
  { id: 'agents', name: 'Agents', page: lazy('Agents', () => import('./pages/agents.js').then((m) => m.Agents)) },
  {
    id: 'agent-keys',
    name: 'Agent keys',
    page: lazy('Agent keys', () => import('./pages/all_agent_keys.js').then((m) => m.AllAgentKeys)),
  },
  {
    id: 'policies',
    name: 'Policies',
    page: lazy('Policies', () => import('./pages/policies.js').then((m) => m.Policies)),
  },
  { id: 'policy', name: 'Policy', page: lazy('Policy', () => import('./pages/policy.js').then((m) => m.Policy)) },
  {
    id: 'delegations',
    name: 'Delegations',
    page: lazy('Delegations', () => import('./pages/delegations.js').then((m) => m.Delegations)),
  },
  { id: 'passports', name: 'Passports', page: Passports, open: true },
  {
    id: 'control',
    name: 'Control log',
    page: lazy('Control log', () => import('./pages/control.js').then((m) => m.Control)),
  },
  {
    id: 'checkpoints',
    name: 'Checkpoints',
    page: lazy('Checkpoints', () => import('./pages/checkpoints.js').then((m) => m.Checkpoints)),
  },
  { id: 'report', name: 'Report', page: lazy('Report', () => import('./pages/report.js').then((m) => m.Report)) },
  {
    id: 'key',
    name: 'Signing key',
    page: lazy('Signing key', () => import('./pages/signing_key.js').then((m) => m.SigningKey)),
  },
  { id: 'people', name: 'People', page: lazy('People', () => import('./pages/people.js').then((m) => m.People)) },
  {
    id: 'join',
    name: 'Invitation',
    page: lazy('Invitation', () => import('./pages/join.js').then((m) => m.Join)),
    open: true,
  },
  { id: 'keys', name: 'API keys', page: lazy('API keys', () => import('./pages/keys.js').then((m) => m.Keys)) },
  {
    id: 'federation',
    name: 'Federation',
    page: lazy('Federation', () => import('./pages/federation.js').then((m) => m.Federations)),
  },
  {
    id: 'webhooks',
    name: 'Webhooks',
    page: lazy('Webhooks', () => import('./pages/webhooks.js').then((m) => m.Webhooks)),
  },
  {
    id: 'reference',
    name: 'API reference',
    page: lazy('API reference', () => import('./pages/reference.js').then((m) => m.Reference)),
    open: true,
  },
];

const NO_PAGE = {
  id: '',
  name: 'Page not found',
  open: true,
  page: () =>
    html`<${Page} title="Page not found"
      lead="This console has no page at this address.">
      <div><a class="button" href=${href('start')}>Go to the overview</a></div><//>`,
};

/** @type {Record<string, string>} */
const FORMER = table({ chain: 'records' }); // names that pages had: their links go on working

const NAMES = new Map(PAGES.map(({ id, name }) => [id, name]));

/** @type {Record<string, string>} */
const THEMES = table({ system: 'light', light: 'dark', dark: 'system' });

function ThemeButton() {
  const { choice } = useStore(theme);
  return html`<button type="button" class="button quiet small" onClick=${() => choose(THEMES[choice])}
    aria-label="Colours: ${choice}. Change"><${Icon} name="theme" />${choice}</button>`;
}

// All times of all pages, on paper too.
function ZoneButton() {
  const { zone } = useStore(times);
  return html`<button type="button" class="button quiet small"
    onClick=${() => chooseZone(zone === 'utc' ? 'local' : 'utc')}
    aria-label="Times: ${zone === 'utc' ? 'UTC' : 'local'}. Change">${zone === 'utc' ? 'UTC' : 'Local time'}</button>`;
}

const Palette = lazy('', () => import('./parts/palette.js').then((m) => m.Palette));

function GoTo() {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    /** @param {KeyboardEvent} event */
    const onKey = (event) => {
      if (event.key.toLowerCase() !== 'k' || event.altKey || event.shiftKey) return;
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      if (!document.querySelector('dialog[open]')) setOpen(true);
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
  return html`
    <button type="button" class="button small go-to" onClick=${() => setOpen(true)} title="Ctrl-K"
      aria-keyshortcuts="Control+K">Go to</button>
    ${open && html`<${Palette} pages=${PAGES} onClose=${() => setOpen(false)} />`}`;
}

function App() {
  const { page, argument } = useStore(route);
  const { status, company, turn } = useStore(session);
  const main = useRef(null);
  const [menu, setMenu] = useState(false);
  useStore(times); // everything is shown again in another zone
  const before = useRef(null); // what was shown before
  const shown = PAGES.find((p) => p.id === (FORMER[page] ?? page)) ?? NO_PAGE;

  useEffect(() => setMenu(false), [shown.id]);
  useLayoutEffect(() => {
    document.title = `${shown.name} · attestd`;
  }, [shown.id]); // before a page names what it shows
  useEffect(() => {
    // A page change moves the focus to its heading, as a real page load would, and so does signing
    // in or out; the first page is left alone.
    const was = before.current;
    before.current = { id: shown.id, status };
    if (!was || (was.id === shown.id && (was.status === 'restoring' || status === 'restoring'))) return;
    scrollTo(0, 0);
    main.current.querySelector('h1')?.focus();
  }, [shown.id, status]);

  useEffect(() => {
    if (session.get().status !== 'in') return stopStream(); // it may have ended since this was shown
    startStream();
    import('./core/approvals_watch.js').then((m) => m.watch(), () => {});
  }, [status, company?.companyId, turn]);

  const body =
    status === 'restoring'
      ? html`<h1 tabindex="-1">Restoring your session …</h1>`
      : shown.open || status === 'in'
        ? html`<${shown.page} key=${turn} argument=${argument} />`
        : html`<${SignInFirst} />`;
  /** @param {Event} event */
  const skip = (event) => {
    event.preventDefault();
    main.current.querySelector('h1')?.focus();
  };
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to content</a>
    <${TopBar}><${GoTo} />
      <button type="button" class="button small menu-button" aria-expanded=${menu ? 'true' : 'false'}
        aria-controls="side" onClick=${() => setMenu(!menu)}><${Icon} name="menu" />Menu</button><//>
    <${PrintHeader} />
    <div class="shell">
      <${SideBar} page=${shown.id} open=${menu}>
        <div class="side-end"><${ZoneButton} /><${ThemeButton} /></div><//>
      <main id="main" ref=${main} key=${shown.id}>
        <${Views} page=${shown.id} names=${NAMES} />
        <div class="news"><${News} page=${shown.id} open=${shown.open} /></div>
        <div class="page">${body}</div>
      </main>
    </div>`;
}

giveUpOnFailure();
restoreTheme();
// Chosen before anything is checked, and while the server still answers: the fallback is a file of
// its own.
engine().catch(() => {});
render(html`<${App} />`, document.getElementById('app'));
restore();
