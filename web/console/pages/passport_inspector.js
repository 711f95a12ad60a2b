// One token taken apart: checked in this page against the company's key, then asked about online.
import { html } from '../vendor/preact-htm.js';
import { callText } from '../core/api.js';
import { duration } from '../core/format.js';
import { go } from '../core/router.js';
import { companyKey, refreshKey, session } from '../core/session.js';
import { store, useStore } from '../core/store.js';
import { toneOf } from '../core/trust.js';
import { checkStatus } from '../lib/status.js';
import { check, decode, iso, principals } from '../lib/token.js';
import { Badge, Notice, useNow, useResult } from '../parts/basic.js';
import { JSONView } from '../parts/json_view.js';
import { ConfirmKey, useStanding } from '../parts/key_trust.js';
import { Principals } from '../parts/principals.js';
import { Text } from '../parts/text.js';

/** The token on the bench. It never enters the URL. */
export const bench = store({ token: '' });

export function inspect(token) {
  bench.set({ token });
  go('passports');
}

// Everything that can be found out about a token; what is not possible is said, not hidden.
async function examine(decoded) {
  const found = { key: null, checks: null, status: null, problem: '', statusProblem: '' };
  const now = Date.now() / 1000;
  try {
    found.key = await companyKey(decoded.companyId);
    const knows = (key) => (key.ring ?? [key]).some(({ kid }) => kid === decoded.header.value.kid);
    if (!knows(found.key)) found.key = await refreshKey(decoded.companyId);
  } catch (err) {
    return { ...found, problem: `The signature could not be checked: ${err.message}` };
  }
  found.checks = await check(decoded, found.key, { ...found.key, now });
  const { jti } = decoded.claims.value;
  if (decoded.passport && session.get().status === 'in' && session.get().company.companyId === decoded.companyId && jti) {
    let answer;
    try {
      answer = await callText('GET', `/v1/ocsp/${encodeURIComponent(jti)}`);
    } catch (err) {
      return { ...found, problem: `Revocation could not be asked: ${err.message}` };
    }
    try {
      found.status = await checkStatus(answer, found.key, { jti, now });
    } catch (err) {
      found.statusProblem = err.message;
    }
  }
  return found;
}

function Clock({ claims, tone }) {
  const now = useNow();
  const { iat, exp } = claims;
  if (typeof exp !== 'number') return html`<p class="muted">It names no expiry.</p>`;
  const left = exp - now;
  const share = Math.max(0, Math.min(1, left / Math.max(1, exp - (iat ?? now))));
  return html`
    <div class="clock">
      <svg viewBox="0 0 36 36" class=${left > 0 ? tone : 'bad'} aria-hidden="true"><circle cx="18" cy="18" r="15.9" /><circle class="left" cx="18" cy="18" r="15.9" pathLength="100" stroke-dasharray="${share * 100} 100" /></svg>
      <div><strong>${left > 0 ? `${duration(left)} left` : `expired ${duration(-left)} ago`}</strong><br /><span class="muted small">until ${iso(exp)}</span></div>
    </div>`;
}

function Status({ status, problem, keyStanding }) {
  if (problem) return html`<div data-status="bad"><${Notice} kind="bad">The server’s statement about revocation is worth nothing: ${problem}.<//></div>`;
  if (!status) return null;
  return html`
    <div data-status=${status.status}>
      <${Notice} kind=${toneOf(status.status === 'valid', keyStanding)}>
        ${status.status === 'valid' ? `Not revoked, says a statement of ${status.checkedAt} signed with this key.`
          : status.status === 'revoked' ? html`<strong>Revoked</strong> at ${status.revokedAt}${status.reason ? `: ${status.reason}` : ''}.`
          : 'This company never issued a passport with this ID.'}
      <//>
    </div>`;
}

/** The key that a token was checked with; without one there is nothing to confirm. */
const KeyOfToken = ({ keyOf }) => html`
  <div class="stack tight"><h3>Key</h3><p class="small">This server publishes <code><${Text} of=${keyOf.fingerprint} /></code> for <${Text} of=${keyOf.companyId} />.</p><${ConfirmKey} keyOf=${keyOf} /></div>`;

const WORDS = { ok: 'genuine', warn: 'key not confirmed', bad: 'not acceptable' };

/** version changes when something happened to the token online. actions are shown for a passport of this company. */
export function Inspector({ token, version, actions }) {
  const { status: signedIn } = useStore(session);
  let decoded;
  let malformed = '';
  try {
    decoded = decode(token);
  } catch (err) {
    malformed = err.message;
  }
  const found = useResult(async () => decoded && examine(decoded), [token, version, signedIn]);
  const keyStanding = useStanding(found?.key ?? { companyId: '', fingerprint: '' });
  if (malformed) return html`<${Notice} kind="bad">This is not a token: ${malformed}.<//>`;
  const { header, claims, passport } = decoded;
  const tone = found?.checks ? toneOf(found.checks.every((c) => c.ok), keyStanding) : '';
  return html`
    <section class="card" data-token=${tone || 'unknown'}>
      <div class="card-head"><h2>${decoded.kind === 'passport' ? 'Passport' : decoded.kind === 'SVID' ? 'SVID' : 'Delegation token'}
        ${passport && html` of <${Text} of=${passport.agentId} />`}</h2>
        ${tone && html`<${Badge} tone=${tone}>${WORDS[tone]}<//>`}</div>
      ${found?.problem && html`<${Notice}>${found.problem}<//>`}
      <${Status} status=${found?.status} problem=${found?.statusProblem} keyStanding=${keyStanding} />
      <div class="columns">
        <div class="stack">
          <${Clock} claims=${claims.value} tone=${tone} />
          ${passport && html`<div class="stack tight"><h3>Scopes</h3><div class="chips">${passport.scopes.map((s) => html`<span class="chip"><${Text} of=${s} /></span>`)}</div></div>`}
          ${found?.checks && html`
            <div class="stack tight"><h3>Checked in this page</h3>
              <ul class="stack tight checks">${found.checks.map((c) => html`<li><${Badge} tone=${toneOf(c.ok, keyStanding)}>${c.name}<//> <span class="small muted"><${Text} of=${c.detail} /></span></li>`)}</ul></div>`}
        </div>
        <div class="stack"><h3>Principals</h3><${Principals} chain=${principals(decoded)} />${found?.key && html`<${KeyOfToken} keyOf=${found.key} />`}</div>
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
