// @ts-check
// What was found to be wrong with a company: on every page until somebody acknowledges it, and
// beside what it bears on.
import { textOf, titleOf } from '../core/finding_words.js';
import { findings, logOf } from '../core/findings.js';
import { LONGEST, acknowledge } from '../core/journal.js';
import { href } from '../core/router.js';
import { useStore } from '../core/store.js';
import { html, useState } from '../vendor/preact-htm.js';
import { Notice } from './basic.js';
import { Confirm } from './dialogs.js';
import { Text } from './text.js';
import { table } from '../lib/table.js';

/**
 * Why something that holds by itself is not green; of: a finding, or null.
 * @param {{of: Finding | null}} props
 */
export const Against = ({ of }) => of && html`
  <div class="against" data-against=${of.kind}>
    <strong><${Text} of=${titleOf(of)} /></strong> <${Text} of=${textOf(of)} /></div>`;

const WHAT_THEN = table({
  rewritten:
    'Acknowledge it only if you know the reason, such as a restored backup. This browser then remembers what the ' +
      'server shows from now on.',
  failure: 'Acknowledge it only if you know the reason. Whatever still fails is reported again.',
  key: 'Acknowledge it only if you know the reason.',
});

/** @param {{of: Finding}} props */
function Finding({ of }) {
  const [asks, setAsks] = useState(false);
  const log = logOf(of);
  /** @param {string} reason */
  const act = async (reason) => acknowledge(of, reason);
  return html`
    <div data-finding=${of.kind} data-finding-log=${log} data-rewritten=${of.kind === 'rewritten' ? log : undefined}
      data-key-change=${of.kind === 'key' ? 'was-replaced' : undefined}>
      <${Notice} kind="bad"
        actions=${html`<button type="button" class="button small" onClick=${() => setAsks(true)}>
        Acknowledge…</button>`}>
        <${Against} of=${of} />
        ${of.kind === 'failure' && of.failedAt !== 'the root'
          && html`<a href=${href(log === 'control' ? 'control' : 'records', of.failedAt)}>Show the record</a>`}
      <//>
      ${asks && html`
        <${Confirm} title="Acknowledge this finding?" action="Acknowledge" reasonLabel="Reason" needsReason=${LONGEST}
          act=${act} onClose=${() => setAsks(false)}>
          <p><strong><${Text} of=${titleOf(of)} /></strong> ${WHAT_THEN[of.kind]} The finding and your reason are stored
            in the <a href=${href('verify')}>journal of this browser</a>.</p>
        <//>`}
    </div>`;
}

const ORDER = ['rewritten', 'failure', 'key'];

/**
 * A banner for each finding about a company. keyIsSaid: that its key was replaced is shown there
 * already.
 * @param {{companyId: string, keyIsSaid?: boolean}} props
 */
export const Findings = ({ companyId, keyIsSaid }) => useStore(findings).all
  .filter((one) => one.companyId === companyId && !(keyIsSaid && one.kind === 'key'))
  .sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind))
  .map((one) => html`<${Finding} key=${`${one.kind} ${logOf(one)}`} of=${one} />`);
