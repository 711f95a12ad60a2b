// @ts-check
// The issuer of tokens for others, and the keys that verify them, as this server publishes both.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { issuerMetadata, tokenKeys } from '../core/answers.js';
import { call } from '../core/api.js';
import { NOTHING } from '../core/asked.js';
import { href } from '../core/router.js';
import { useSignedIn } from '../core/session.js';
import { visible } from '../lib/visible.js';
import { Failure, Value, useTask } from '../parts/basic.js';

/** @param {string} id */
const path = (id) => `/o/${encodeURIComponent(id)}`;

export function TokenKeys() {
  const { company, key } = useSignedIn();
  /** @type {[{issuer: string, keys: {alg: string, kid: string}[]} | null, Function]} */
  const [found, setFound] = useState(null);
  const [run, , error] = useTask();
  const load = async () => {
    const [metadata, set] = await Promise.all([
      call(issuerMetadata, 'GET', `${path(company.companyId)}/.well-known/openid-configuration`, { asked: NOTHING }),
      call(tokenKeys, 'GET', `${path(company.companyId)}/jwks`, { asked: NOTHING }),
    ]);
    setFound({ issuer: metadata.issuer, keys: set.keys });
  };
  useEffect(() => { run(load); }, [company.companyId, key.kid]);
  return html`
    <section class="card" aria-label="Token keys">
      <div class="card-head"><h2>Token keys</h2></div>
      <p class="muted small">They sign tokens that tell others who an agent is, and nothing else. They rotate with the
        signing key: the next one is published ten minutes before it signs.</p>
      <${Failure} error=${error} />
      ${found && html`
        <p class="small">Issuer</p><${Value} value=${visible(found.issuer)} what="issuer" />
        <dl class="facts">${found.keys.map(({ alg, kid }) => html`
          <dt>${visible(alg)}</dt>
          <dd><a href=${href('control', '', { subject: `token-key:${kid}` })}><code>${visible(kid)}</code></a></dd>`)}
        </dl>`}
    </section>`;
}
