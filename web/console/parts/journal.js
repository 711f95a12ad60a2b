// @ts-check
// The journal of findings about a company, to be read and saved.
import { textOf, titleOf } from '../core/finding_words.js';
import { findings } from '../core/findings.js';
import { timeText } from '../core/format.js';
import { journal } from '../core/journal.js';
import { useStore } from '../core/store.js';
import { html } from '../vendor/preact-htm.js';
import { Badge } from './basic.js';
import { save } from './save.js';
import { Text } from './text.js';

/**
 * @param {string} companyId
 * @param {Finding[]} open
 * @param {unknown[]} acknowledged
 */
function saveJournal(companyId, open, acknowledged) {
  const content = {
    type: 'attestd-journal',
    v: 1,
    companyId,
    origin: location.origin,
    savedAt: new Date().toISOString(),
    open,
    acknowledged,
  };
  save(`journal-${companyId}.json`, 'application/json', `${JSON.stringify(content, null, 1)}\n`);
}

/** @param {{of: Finding, children?: Child}} props */
const Entry = ({ of, children }) => html`
  <li class="stack tight" data-journal=${of.kind}>
    <div><strong><${Text} of=${titleOf(of)} /></strong> ${children}</div>
    <p class="small muted"><${Text} of=${textOf(of)} /></p>
  </li>`;

/** @param {{companyId: string}} props */
export function Journal({ companyId }) {
  /** @param {Finding} one */
  const own = (one) => one.companyId === companyId;
  const open = useStore(findings).all.filter(own);
  const acknowledged = useStore(journal).all.filter(({ finding }) => own(finding));
  return html`
    <section class="card" aria-label="Journal of findings">
      <div class="card-head"><h2>Journal of findings</h2>
        ${open.length + acknowledged.length > 0
          && html`<button type="button" class="button" onClick=${() => saveJournal(companyId, open, acknowledged)}>
          Save journal</button>`}</div>
      <p class="small muted">Problems that this browser found, with the reasons given when they were acknowledged.
        Stored in this browser only.</p>
      ${open.length + acknowledged.length === 0 ? html`<p class="empty">No findings yet.</p>` : html`
        <ul class="stack">
          ${open.map((of) => html`<${Entry} of=${of}><${Badge} tone="bad">open<//><//>`)}
          ${acknowledged.toReversed().map(
            ({ finding, at, reason }) => html`
            <${Entry} of=${finding}><${Badge}>acknowledged ${timeText(at)}<//>
              <div>Reason: <${Text} of=${reason} /></div><//>`,
          )}
        </ul>`
      }
    </section>`;
}
