// @ts-check
// The verdict on a file and what it rests on. All that is shown was read in its form, and is shown
// as text.
import { html } from '../console/vendor/preact-htm.js';
import { visible } from '../console/lib/visible.js';
import { Notice } from '../console/parts/basic.js';
import { inWords, summary } from '../console/lib/evidence/summary.js';
import { Beside, Content, Summary, Words } from '../console/parts/evidence_parts.js';
import { Text } from '../console/parts/text.js';
import { table } from '../console/lib/table.js';

// Green is what holds with what the person entered, as in the console; amber what anyone could have
// made.
/** @type {Record<string, Tone>} */
const TONES = table({ holds: 'ok', 'self-consistent': 'warn', fails: 'bad' });

/** @param {VerifierFound} props */
function Verdict({ file, digest, trusted, found: { verdict, code, reason } }) {
  return html`
    <section class="verdict stack tight" data-verdict=${verdict} data-code=${code} data-file=${visible(file.name)}>
      <${Notice} kind=${code === 'PRUNED' ? 'warn' : TONES[verdict]}>
        <strong><${Text} of=${inWords({ verdict, code, reason })} /></strong> (<${Text} of=${file.name} />).
        ${verdict === 'self-consistent' && html` Enter a fingerprint or a policy.`}
      <//>
      <dl class="facts">
        <dt>SHA-256 of the file</dt><dd><code>${digest}</code></dd>
        <dt>trusted</dt><dd>${trusted ? html`<pre class="trusted"><${Text} of=${trusted} /></pre>` : 'nothing yet'}</dd>
      </dl>
    </section>`;
}

/** @param {{header: SessionHeader, state: string}} props */
const Session = ({ header: { companyId, agentId, sid, kid, records }, state }) => html`
  <section class="card long" data-session=${state}>
    <h2>The session</h2>
    <dl class="facts">
      <dt>company</dt><dd>${companyId}</dd>
      <dt>agent</dt><dd><${Text} of=${agentId} /></dd>
      <dt>session</dt><dd><code>${sid}</code></dd>
      <dt>state</dt><dd><strong>${state}</strong></dd>
      <dt>records</dt><dd>${records}</dd>
      <dt>signed with the agent’s key</dt><dd><code>${kid}</code></dd>
    </dl>
  </section>`;

/**
 * found is what checkFile of session.js returns, digest the SHA-256 of the file, trusted what was
 * entered. Of a file that fails only the verdict and the checks that came before are shown.
 * @param {VerifierFound} props
 */
export function Result({ file, digest, trusted, found }) {
  const whole = found.verdict !== 'fails';
  return html`
    <${Verdict} ...${{ file, digest, trusted, found }} />
    ${whole && html`<${Summary} lines=${summary(found)} />`}
    ${whole && found.header && html`<${Session} header=${found.header} state=${found.state?.() ?? ''} />`}
    ${whole && !found.header && html`<${Content} companyId=${found.file.companyId} log=${found.file.log}
      record=${found.subject} signer=${found.subject.signer} agentKey=${found.agentKeys?.who()} />`}
    ${whole && html`<${Beside} found=${found} />`}
    ${found.checked.length > 0
      && html`<${Words} title=${whole ? 'Checks that passed' : 'Checks that passed before the failure'}
        list=${found.checked} />`}
    ${whole && html`<${Words} title="Not proven" list=${found.file.notProven} />`}`;
}
