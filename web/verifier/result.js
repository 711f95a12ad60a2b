// The verdict on a file and what it rests on. All that is shown was read in its form, and is shown as text.
import { html } from '../console/vendor/preact-htm.js';
import { visible } from '../console/lib/visible.js';
import { Notice } from '../console/parts/basic.js';
import { Beside, Content, Words } from '../console/parts/evidence_parts.js';
import { Text } from '../console/parts/text.js';

// Green is what holds with what the person entered, as in the console; amber what anyone could have made.
const TONES = { holds: 'ok', 'self-consistent': 'warn', fails: 'bad' };

function Verdict({ file, digest, trusted, found: { verdict, code, reason } }) {
  return html`
    <section class="verdict stack tight" data-verdict=${verdict} data-code=${code} data-file=${visible(file.name)}>
      <${Notice} kind=${TONES[verdict]}>
        ${verdict === 'holds' ? html`<strong>It holds.</strong> <${Text} of=${file.name} />: what was checked follows from what you trust.`
          : verdict === 'fails' ? html`<strong>It fails: ${code}.</strong> <${Text} of=${`${file.name}: ${reason}`} />.`
            : html`<strong>Self-consistent only.</strong> <${Text} of=${file.name} />: nothing from outside says whose keys these are. Anyone can make such a file: enter a fingerprint or a policy.`}
      <//>
      <dl class="facts">
        <dt>SHA-256 of the file</dt><dd><code>${digest}</code></dd>
        <dt>you trust</dt><dd>${trusted ? html`<pre class="trusted"><${Text} of=${trusted} /></pre>` : 'nothing from outside'}</dd>
      </dl>
    </section>`;
}

/**
 * found is what check of check.js returns, digest the SHA-256 of the file, trusted what was entered. Of a file that fails only the verdict and the
 * checks that came before are shown.
 */
export function Result({ file, digest, trusted, found }) {
  const whole = found.verdict !== 'fails';
  return html`
    <${Verdict} ...${{ file, digest, trusted, found }} />
    ${whole && html`<${Content} companyId=${found.file.companyId} log=${found.file.log} record=${found.subject} signer=${found.subject.signer} />`}
    ${whole && html`<${Beside} found=${found} />`}
    ${found.checked.length > 0 && html`<${Words} title=${whole ? 'What was checked' : 'What was checked before it failed'} list=${found.checked} />`}
    ${whole && html`<${Words} title="What is not proven" list=${found.file.notProven} />`}`;
}
