// @ts-check
// The bar above every page: whose log this is, what this browser verified of it and under which
// key, whether witnesses keep up, and who is signed in. Nothing else says in general that all is
// well.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { PERSON, getCredential } from '../core/api.js';
import { bare, timeText } from '../core/format.js';
import { live } from '../core/live_state.js';
import { href } from '../core/router.js';
import { readService } from '../core/service_state.js';
import { session, signOut } from '../core/session.js';
import { useStore } from '../core/store.js';
import { confirmedAt, trust } from '../core/trust.js';
import { verifiedOf } from '../core/verified.js';
import { Icon } from './basic.js';
import { useAssess, useKeyState } from './key_trust.js';
import { CredentialName } from './name.js';
import { Text } from './text.js';

const WITNESSES = 60_000; // ms between two questions about them

/** @param {{companyKey: ServiceKey}} props */
function Verified({ companyKey }) {
  const { tone, says, page } = verifiedOf(useStore(live), useAssess(companyKey));
  const keyState = useKeyState(companyKey);
  const at = confirmedAt(companyKey, useStore(trust));
  return html`
    <span class="verified ${tone}" data-verified=${tone || 'none'}>
      <a href=${href(page)}>${tone ? html`<${Icon} name=${tone} />` : html`<span class="dot"></span>`}
        ${says}</a>
      ${keyState === 'confirmed' && at && html`<span class="verified-key" title=${timeText(at)}>
        key confirmed ${bare(at, 10)}</span>`}
      ${keyState === 'unconfirmed' && html`<a class="verified-key warn-text" href=${href('key')}>Confirm the key</a>`}
      ${keyState === 'other' && html`<a class="verified-key bad-text" href=${href('key')}>Not the known key</a>`}
    </span>`;
}

/** What the server says of its witnesses; what they signed is checked on the page behind it. */
function Witnesses() {
  const [found, setFound] = useState(/** @type {ServiceState | null} */ (null));
  useEffect(() => {
    const read = () => readService().then(setFound);
    read();
    const timer = setInterval(read, WITNESSES);
    return () => clearInterval(timer);
  }, []);
  const { witnessAlarms = 0, witnessesBehind = 0 } = found ?? {};
  const wrong = witnessAlarms > 0 || witnessesBehind > 0;
  return html`
    <a class="top-fact ${witnessAlarms ? 'bad-text' : wrong ? 'warn-text' : ''}" href=${href('checkpoints')}
      data-witnesses=${witnessAlarms ? 'contest' : wrong ? 'behind' : ''}>
      ${witnessAlarms ? 'Contested by a witness' : wrong ? 'A witness is behind' : 'Witnesses'}</a>`;
}

const CONNECTIONS = new Map([['open', 'Live'], ['connecting', 'Connecting'], ['retrying', 'Offline']]);

function Connection() {
  const { connection } = useStore(live);
  return html`<a class="top-fact" href=${href('live')} data-connection=${connection}>
    <span class="dot ${connection === 'open' ? 'open' : ''}"></span>${CONNECTIONS.get(connection) ?? 'Offline'}</a>`;
}

/** The person who is signed in, or the credential of this browser by its name. */
function Who() {
  const [fingerprint, setFingerprint] = useState('');
  const [name, setName] = useState('');
  const { status } = useStore(session);
  useEffect(() => {
    setName('');
    if (getCredential() === PERSON)
      import('../core/people.js').then((m) => m.readMe()).then((me) => setName(me.name), () => {});
    else import('../core/credentials.js').then((m) => m.fingerprintOf(getCredential())).then(setFingerprint, () => {});
  }, [status]);
  if (name) return html`<a class="top-fact who" href=${href('people')}><${Text} of=${name} /></a>`;
  return fingerprint && html`<span class="top-fact who">key <${CredentialName} of=${fingerprint} /></span>`;
}

/**
 * children: what stands at its end.
 * @param {{children?: Child}} props
 */
export function TopBar({ children }) {
  const { status, company, key } = useStore(session);
  return html`
    <header class="top">
      <a class="brand" href=${href('start')} aria-label="attestd, overview"><img src="/favicon.svg" alt="" />
        <span>attestd</span></a>
      ${status === 'in' && company && key && html`
        <strong class="top-company"><${Text} of=${company.companyId} /></strong>
        <${Verified} companyKey=${key} />
        <${Witnesses} />
        <${Connection} />`}
      <span class="top-end">
        ${status === 'in' && html`<${Who} />
          <button type="button" class="button small sign-out" onClick=${() => signOut()}>Sign out</button>`}
        ${children}
      </span>
    </header>`;
}
