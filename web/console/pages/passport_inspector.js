// One token taken apart: checked in this page against the company's key, then asked about online.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { call } from '../core/api.js';
import { duration } from '../core/format.js';
import { go } from '../core/router.js';
import { companyKey, session } from '../core/session.js';
import { store, useStore } from '../core/store.js';
import { unbase64url, utf8 } from '../lib/bytes.js';
import { verify } from '../lib/ed25519.js';
import { canonicalize } from '../lib/jcs.js';
import { sha256 } from '../lib/sha256.js';
import { check, decode, iso, principals } from '../lib/token.js';
import { Badge, Notice, useNow } from '../parts/basic.js';
import { JSONView } from '../parts/json_view.js';
import { Principals } from '../parts/principals.js';

/** The token on the bench. It never enters the URL. */
export const bench = store({ token: '' });

export function inspect(token) {
  bench.set({ token });
  go('passports');
}

// The service's signed statement about a passport (OCSP), its signature checked here.
async function signedStatus(jti, key) {
  const { caPublicKey: _, signature, ...said } = await call('GET', `/v1/ocsp/${encodeURIComponent(jti)}`);
  const digest = await sha256(utf8(canonicalize(JSON.stringify(said))));
  return { ...said, signatureOK: await verify(key.prepared, unbase64url(signature), digest) };
}

// Everything that can be found out about a token; what is not possible is said, not hidden.
async function examine(decoded) {
  const found = { checks: null, status: null, problem: '' };
  let key;
  try {
    key = await companyKey(decoded.companyId);
  } catch (err) {
    return { ...found, problem: `The signature could not be checked: ${err.message}` };
  }
  found.checks = await check(decoded, key.prepared, { ...key, now: Date.now() / 1000 });
  const jti = decoded.claims.value.jti;
  if (decoded.passport && session.get().status === 'in' && session.get().company.companyId === decoded.companyId && jti) {
    try {
      found.status = await signedStatus(String(jti), key);
    } catch (err) {
      found.problem = `Revocation could not be asked: ${err.message}`;
    }
  }
  return found;
}

function Clock({ claims }) {
  const now = useNow();
  const { iat, exp } = claims;
  if (typeof exp !== 'number') return html`<p class="muted">It names no expiry.</p>`;
  const left = exp - now;
  const share = Math.max(0, Math.min(1, left / Math.max(1, exp - (iat ?? now))));
  return html`
    <div class="clock">
      <svg viewBox="0 0 36 36" class=${left > 0 ? '' : 'bad'} aria-hidden="true"><circle cx="18" cy="18" r="15.9" /><circle class="left" cx="18" cy="18" r="15.9" pathLength="100" stroke-dasharray="${share * 100} 100" /></svg>
      <div><strong>${left > 0 ? `${duration(left)} left` : `expired ${duration(-left)} ago`}</strong><br /><span class="muted small">until ${iso(exp)}</span></div>
    </div>`;
}

function Status({ status }) {
  if (!status) return null;
  const ok = status.status === 'valid' && status.signatureOK;
  return html`
    <div data-status=${status.status}>
      <${Notice} kind=${ok ? 'ok' : 'bad'}>
        ${!status.signatureOK ? 'The server’s statement about revocation has a bad signature.'
          : status.status === 'valid' ? `Not revoked, as the company’s signed statement of ${status.checkedAt} says.`
          : status.status === 'revoked' ? html`<strong>Revoked</strong> at ${status.revokedAt}${status.reason ? `: ${status.reason}` : ''}.`
          : 'This company never issued a passport with this ID.'}
      <//>
    </div>`;
}

/** version changes when something happened to the token online. actions are shown for a passport of this company. */
export function Inspector({ token, version, actions }) {
  const { status: signedIn } = useStore(session);
  const [found, setFound] = useState(null);
  let decoded;
  let malformed = '';
  try {
    decoded = decode(token);
  } catch (err) {
    malformed = err.message;
  }
  useEffect(() => {
    let current = true;
    setFound(null);
    if (decoded) examine(decoded).then((f) => current && setFound(f));
    return () => { current = false; };
  }, [token, version, signedIn]);
  if (malformed) return html`<${Notice} kind="bad">This is not a token: ${malformed}.<//>`;
  const { header, claims, passport } = decoded;
  const genuine = found?.checks?.every((c) => c.ok);
  return html`
    <section class="card" data-token=${genuine === undefined ? 'unknown' : genuine ? 'ok' : 'bad'}>
      <div class="card-head"><h2>${decoded.kind === 'passport' ? 'Passport' : decoded.kind === 'SVID' ? 'SVID' : 'Delegation token'}
        ${passport && html` of <span class="accent-text">${passport.agentId ?? '?'}</span>`}</h2>
        ${genuine !== undefined && html`<${Badge} ok=${genuine}>${genuine ? 'genuine' : 'not acceptable'}<//>`}</div>
      ${found?.problem && html`<${Notice}>${found.problem}<//>`}
      <${Status} status=${found?.status} />
      <div class="columns">
        <div class="stack">
          <${Clock} claims=${claims.value} />
          ${passport && html`<div class="stack tight"><h3>Scopes</h3><div class="chips">${passport.scopes.map((s) => html`<span class="chip">${String(s)}</span>`)}</div></div>`}
          ${found?.checks && html`
            <div class="stack tight"><h3>Checked in this page</h3>
              <ul class="stack tight checks">${found.checks.map((c) => html`<li><${Badge} ok=${c.ok}>${c.name}<//> <span class="small muted">${c.detail}</span></li>`)}</ul></div>`}
        </div>
        <div class="stack"><h3>Principals</h3><${Principals} chain=${principals(decoded)} /></div>
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
