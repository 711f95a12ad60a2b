// @ts-check
// One token taken apart: a verdict, then what it was made of. It is checked in this page against
// the company's key, and asked about online.
import { html, useState } from '../vendor/preact-htm.js';
import { callText } from '../core/api.js';
import { duration, timeText } from '../core/format.js';
import { go } from '../core/router.js';
import { clock, companyKey, refreshKey, session } from '../core/session.js';
import { store, useStore } from '../core/store.js';
import { verdictOf } from '../core/token_verdict.js';
import { checkStatus } from '../lib/status.js';
import { check, decode, iso, principals } from '../lib/token.js';
import { Badge, Notice, useNow, useResult } from '../parts/basic.js';
import { JSONView } from '../parts/json_view.js';
import { ConfirmKey, useAssess } from '../parts/key_trust.js';
import { Principals } from '../parts/principals.js';
import { Text } from '../parts/text.js';
import { table } from '../lib/table.js';

/** The token on the bench. It never enters the URL. */
export const bench = store({ token: '', rotatedFrom: '' });

/** @param {string} token */
export function inspect(token) {
  bench.set({ token, rotatedFrom: '' });
  go('passports');
}

const SIGNED_OUT = {
  passport: 'Sign in to check revocation: only the company’s own server knows.',
  other: 'You are signed in to another company. Sign in to this one to check revocation.',
};

/**
 * What the server says of a passport, signed; of what cannot be revoked, whether its agent was
 * disabled. It changes what is found.
 * @param {Token} decoded
 * @param {CompanyKey} key
 * @returns {Promise<Partial<TokenFound>>}
 */
async function askServer(decoded, key) {
  const { status, company } = session.get();
  if (status !== 'in') return { unasked: SIGNED_OUT.passport };
  if (company?.companyId !== decoded.companyId) return { unasked: SIGNED_OUT.other };
  try {
    if (!decoded.passport) {
      const agentId = /\/agent\/([^/]+)$/.exec(principals(decoded).at(-1) ?? '')?.[1];
      if (!agentId) return {};
      const { readAgent } = await import('../core/agent_said.js');
      const { listed, said } = await readAgent(agentId);
      return { disabledAt: said?.disabledAt || listed?.disabledAt };
    }
    const { jti } = decoded.claims.value;
    if (!jti) return { unasked: 'It has no ID to check for revocation.' };
    const answer = await callText('GET', `/v1/ocsp/${encodeURIComponent(jti)}`);
    // Its age is judged with the verdict, as time goes on: that something was revoked stays true
    // for ever.
    return await checkStatus(answer, key, { jti, now: Infinity, maxAge: Infinity }).then(
      (said) => ({ status: said }),
      (err) => ({ statusProblem: err.message }),
    );
  } catch (err) {
    return { unasked: `The server could not be asked: ${err.message}` };
  }
}

/**
 * Everything that can be found out about a token, as verdictOf takes it; what is not possible is
 * said, not hidden.
 * @param {Token} decoded
 * @returns {Promise<TokenFound & {key: ServiceKey | null}>}
 */
async function examine(decoded) {
  let key;
  try {
    key = await companyKey(decoded.companyId);
    if (!(key.ring ?? [key]).some(({ kid }) => kid === decoded.header.value.kid))
      key = await refreshKey(decoded.companyId);
  } catch (err) {
    return { key: null, checks: null, problem: `The signature could not be checked: ${err.message}` };
  }
  const checks = await check(decoded, key, { ...key, now: Date.now() / 1000 });
  return { key, checks, ...(await askServer(decoded, key)) };
}

/** @param {{claims: Claims, tone: Tone, now: number}} props */
function Clock({ claims, tone, now }) {
  const { iat, exp } = claims;
  if (typeof exp !== 'number') return html`<p class="muted">It has no expiry.</p>`;
  const left = exp - now;
  const share = Math.max(0, Math.min(1, left / Math.max(1, exp - (iat ?? now))));
  return html`
    <div class="clock">
      <svg viewBox="0 0 36 36" class=${left > 0 ? tone : 'bad'} aria-hidden="true"><circle cx="18" cy="18" r="15.9" />
        <circle class="left" cx="18" cy="18" r="15.9" pathLength="100" stroke-dasharray="${share * 100} 100" /></svg>
      <div><strong>${left > 0 ? `${duration(left)} left` : `expired ${duration(-left)} ago`}</strong><br />
        <span class="muted small">until ${timeText(iso(exp))}</span></div>
    </div>`;
}

/** @param {{verdict: TokenVerdict, status?: string, onAsk: (() => void) | false}} props */
function Verdict({ verdict, status, onAsk }) {
  return html`
    <div class="token-verdict ${verdict.tone}" data-verdict=${verdict.is} data-status=${status} role="status">
      <strong class="verdict-word ${verdict.tone}">${verdict.is}</strong>
      <p><${Text} of=${verdict.why} /></p>
      ${onAsk && html`<div><button type="button" class="button small retry" onClick=${onAsk}>Refresh</button></div>`}
    </div>`;
}

/**
 * The key that a token was checked with; without one there is nothing to confirm.
 * @param {{keyOf: NamedKey}} props
 */
const KeyOfToken = ({ keyOf }) => html`
  <div class="stack tight"><h3>Key</h3>
    <p class="small">This server publishes <code><${Text} of=${keyOf.fingerprint} /></code> for <${Text}
      of=${keyOf.companyId} />.</p><${ConfirmKey} keyOf=${keyOf} /></div>`;

const KINDS = table({ passport: 'Passport', SVID: 'SVID', delegation: 'Delegation token' });
const ASKABLE = ['not checked', 'revocation not checked', 'revocation unknown'];

/**
 * version changes when something happened to the token online. actions are shown for a passport of
 * this company.
 * @param {{token: string, version: number, actions?: TokenActions}} props
 */
export function Inspector({ token, version, actions }) {
  const { status: signedIn } = useStore(session);
  const serverClock = useStore(clock);
  const now = useNow();
  const [asked, setAsked] = useState(0);
  /** @type {Token | null} */
  let decoded = null;
  let malformed = '';
  try {
    decoded = decode(token);
  } catch (err) {
    malformed = err.message;
  }
  const found = useResult(async () => (decoded ? examine(decoded) : null), [token, version, signedIn, asked]);
  const assess = useAssess(found?.key ?? { companyId: '', fingerprint: '' });
  if (!decoded)
    return html`<div data-verdict="no token"><${Notice} kind="bad">This is not a token: ${malformed}.<//></div>`;
  const { kind, header, claims, passport } = decoded;
  const verdict = found && verdictOf({ kind, claims: claims.value, found, assess, now, clock: serverClock });
  const usable = verdict?.is === 'usable now';
  const tone = verdict?.tone ?? '';
  const onAsk = ASKABLE.includes(verdict?.is ?? '') && signedIn !== 'restoring' && (() => setAsked(asked + 1));
  /**
   * With a token that cannot be used nothing is green, whatever else of it holds.
   * @param {boolean} ok
   * @returns {Tone}
   */
  const toneOfCheck = (ok) => (!ok ? 'bad' : usable ? tone : '');
  return html`
    <section class="card" data-token=${verdict?.tone || 'unknown'}>
      ${verdict ? html`<${Verdict} verdict=${verdict} status=${found?.status?.status} onAsk=${onAsk} />`
        : html`<p class="muted" role="status">Checking …</p>`}
      <h2>${KINDS[kind]}${passport && html` of <${Text} of=${passport.agentId} />`}</h2>
      <div class="columns">
        <div class="stack">
          <${Clock} claims=${claims.value} tone=${usable ? tone : ''} now=${now} />
          ${passport
            && html`<div class="stack tight"><h3>Scopes</h3>
            <div class="chips">${passport.scopes.map((s) => html`<span class="chip"><${Text} of=${s} /></span>`)}</div>
              </div>`}
          ${found?.checks && html`
            <div class="stack tight"><h3>Checked in this page</h3>
              <ul class="stack tight checks">
                ${found.checks.map((c) => html`<li>
                <${Badge} tone=${toneOfCheck(c.ok)}>${c.name}<//> <span class="small muted">
                  <${Text} of=${c.detail} /></span></li>`)}</ul></div>`
          }
        </div>
        <div class="stack"><h3>Principals</h3><${Principals} chain=${principals(decoded)} />
          ${found?.key && html`<${KeyOfToken} keyOf=${found.key} />`}</div>
      </div>
      ${passport && actions?.(decoded, found?.status)}
      <details><summary>Header and claims</summary>
        <div class="stack">
          <h3>Header</h3><${JSONView} node=${header.node} source=${header.source} what="header" />
          <h3>Claims</h3><${JSONView} node=${claims.node} source=${claims.source} what="claims" />
        </div>
      </details>
    </section>`;
}
