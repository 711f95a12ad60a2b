// @ts-check
// What bears on every page, above it: what was found, a key that changed, a pause that the server
// asks for, a clock that is wrong, the end of a session.
import { html } from '../vendor/preact-htm.js';
import { timeText } from '../core/format.js';
import { endPause, watchPause } from '../core/pause.js';
import { href, route } from '../core/router.js';
import { clock, session } from '../core/session.js';
import { store, useStore } from '../core/store.js';
import { clockDiffers, clockWords } from '../core/token_verdict.js';
import { changeOf, remember, seenOf, trust } from '../core/trust.js';
import { PART } from '../core/verdict.js';
import { visible } from '../lib/visible.js';
import { Countdown, Notice } from './basic.js';
import { Findings } from './findings.js';
import { useAssess, useKeyState } from './key_trust.js';
import { SignedOut } from './sign_in.js';
import { Text } from './text.js';

const pause = store({ until: 0 });
watchPause((until) => pause.set({ until }));

function Pause() {
  const { until } = useStore(pause);
  if (!until) return null;
  return html`<div data-pause><${Notice}
    actions=${html`<button type="button" class="button quiet small" onClick=${endPause}>Try now</button>`}>
    Rate limit reached. Waiting requests continue by themselves in <${Countdown} until=${until} over="a moment" />.<//>
    </div>`;
}

function Clock() {
  const now = useStore(clock);
  if (now.dismissed || !clockDiffers(now)) return null;
  return html`<div data-clock><${Notice}
    actions=${html`<button type="button" class="button quiet small" onClick=${() => clock.set({ dismissed: true })}>
    Dismiss</button>`}>
    ${clockWords(now)} Results that depend on the time, such as whether a token has expired, may be wrong.<//></div>`;
}

/** @param {{company: Company}} props */
function Suspended({ company: { companyId, suspended } }) {
  if (!suspended) return null;
  return html`<div data-suspended><${Notice} kind="warn">
    <strong>The operator of this service has suspended <${Text} of=${companyId} /></strong> since
    ${' '}${timeText(suspended.since)}: “${visible(suspended.reason)}”. Nothing is recorded or issued for it, and its
    webhooks have stopped. What it has recorded stays here to read, prove and verify.<//></div>`;
}

/** @param {{company: Company}} props */
const Demo = ({ company }) => company.metadata?.demo && html`<div data-demo><${Notice}>
  <strong>Demo company.</strong> Its records tell of a week. The log received them when the demo ran, and says so: when
    something happened in the story is in the payloads, as <code>at</code>.<//></div>`;

/** @param {KeyRotation} rotation */
const step = ({ old, next }) => html`
  <li><strong>From record ${next.fromIndex}</strong>
    ${old.endedAt && html` (the server says at <span title=${old.endedAt}>${timeText(old.endedAt)}</span>)`}
    ${old.compromisedAt && html`; <strong>the old key was declared compromised</strong>`}
    <dl class="facts"><dt>old</dt><dd><code>${old.fingerprint}</code></dd><dt>new</dt>
      <dd><code>${next.fingerprint}</code></dd></dl></li>`;

/** @param {{companyKey: ServiceKey, change: {rotations: KeyRotation[]}}} props */
function Rotated({ companyKey, change }) {
  const assess = useAssess(companyKey);
  const many = change.rotations.length > 1;
  return html`
    <div data-key-change="rotated">
      <${Notice} kind=${assess(true, PART).tone}
        actions=${html`<button type="button" class="button small" onClick=${() => remember(companyKey)}>
        Dismiss</button>`}>
        <strong><${Text} of=${companyKey.companyId} /> has a new signing key.</strong> The rotation is proven: the old
          key and the new key both signed it${many ? ', each time' : ''}. This browser checked both signatures.
        <ul class="stack tight key-steps">${change.rotations.map(step)}</ul>
        If you pinned the old fingerprint, pin the new one.
      <//>
    </div>`;
}

/**
 * @param {{companyKey: ServiceKey, known: {fingerprint: string, at: string},
 *   atKey: boolean}} props
 */
function Replaced({ companyKey, known, atKey }) {
  const why = companyKey.flaw ? `The server’s list of keys is invalid: ${companyKey.flaw}.`
    : 'No rotation signed by both keys leads from the known key to this one. This may be another service, a new or ' +
      'restored database, or a man in the middle.';
  return html`
    <div data-key-change="replaced">
      <${Notice} kind="bad">
        <strong>This is not <${Text} of=${companyKey.companyId} />
          ’s key as this browser remembers it.</strong> <${Text} of=${why} />
        <dl class="facts">${known
          && html`<dt>known${known.at && ` since ${timeText(known.at)}`}</dt>
          <dd><code>${known.fingerprint}</code></dd>`}<dt>now</dt><dd><code>${companyKey.fingerprint}</code></dd></dl>
        ${atKey
          ? 'Ask the company which key is theirs, over another channel than this page, before you trust anything here.'
            : html`Trust nothing here until the company has confirmed it. <a href=${href('key')}>What to do</a>`}
      <//>
    </div>`;
}

/** A link was to confirm the key at the sign-in, and it is of another one. */
function OtherLink() {
  const { fingerprint } = useStore(route).query;
  return fingerprint && html`<div data-other-link><${Notice} kind="bad">
    The link is for another key, <code><${Text} of=${fingerprint} /></code>. Ask who gave it to you before you rely on
      anything here. <a href=${href('key')}>The key of this company</a><//></div>`;
}

/** @param {{companyKey: ServiceKey, page: string}} props */
function KeyNews({ companyKey, page }) {
  const state = useStore(trust);
  const keyState = useKeyState(companyKey);
  const change = changeOf(companyKey, state);
  if (keyState === 'other')
    return html`<${Replaced} companyKey=${companyKey} known=${change?.known ?? seenOf(companyKey.companyId, state)}
      atKey=${page === 'key'} />`;
  return html`
    ${change && html`<${Rotated} companyKey=${companyKey} change=${change} />`}
    ${page === 'start' && keyState === 'unconfirmed' && html`<${OtherLink} />`}`;
}

/** @param {{companyKey: ServiceKey}} props */
const FindingNews = ({ companyKey }) =>
  html`<${Findings} companyId=${companyKey.companyId} keyIsSaid=${useKeyState(companyKey) === 'other'} />`;

/**
 * page is the page that is shown below.
 * @param {{page: string, open?: boolean}} props
 */
export function News({ page, open }) {
  const { key, company } = useStore(session);
  return html`
    ${company && html`<${Suspended} company=${company} /><${Demo} company=${company} />`}
    ${open && page !== 'start' && html`<${SignedOut} link />`}
    <${Pause} /><${Clock} />
    ${key && html`<${KeyNews} companyKey=${key} page=${page} key=${key.companyId} />
    <${FindingNews} companyKey=${key} />`}`;
}
