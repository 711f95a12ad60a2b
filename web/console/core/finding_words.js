// @ts-check
// Findings in plain sentences: for the banner on every page, for verdicts, and for what is saved or
// printed.
import { visible } from '../lib/visible.js';
import { logOf, placeOf } from './findings.js';
import { count, plural, timeText } from './format.js';
import { table } from '../lib/table.js';

const SOURCES = table({
  seen: 'this browser saw',
  checked: 'this browser verified',
  checkpoint: 'a checkpoint that you saved has',
});

/** @param {{failedAt: string, log?: LogName}} finding */
const whereOf = ({ failedAt, log }) =>
  `${placeOf(failedAt)}${logOf({ log }) === 'control' ? ' of the control log' : ''}`;

/** @type {{[K in FindingKind]: Record<'title' | 'text', (finding: FindingKinds[K]) => string>}} */
const KINDS = table({
  rewritten: {
    title: ({ log }) => `${log === 'control' ? 'The control log' : 'The history'} was rewritten.`,
    text: ({ size, at, source, from, now }) =>
      `At ${timeText(at)} ${SOURCES[source]} ` +
        `${plural(size, 'record')};${size > now ? ` the server now has only ${count(now)}`
          : ' the server’s log no longer starts with them'}.` +
      (from > 0
        ? ` Records before ${count(from)} are unchanged; records ${count(from)} to ${count(size - 1)} were changed ` +
          `or removed.`
        : '') +
      ' The server can’t prove what was there before: ask its operator, and compare with evidence and checkpoints ' +
        'that you saved.',
  },
  failure: {
    title: (finding) => `Verification failed at ${whereOf(finding)}.`,
    text: ({ by, reason }) =>
      `${by === 'server' ? 'Reported by the server' : 'Found by this browser'}: ` +
        `${visible(reason) || 'no reason was given'}.`,
  },
  key: {
    title: ({ companyId }) => `The signing key of ${companyId} was replaced without proof.`,
    text: ({ fingerprint }) =>
      `No rotation proved that the key published by this server, ${visible(fingerprint)}, follows from the known key.`,
  },
});

/**
 * @param {Finding} finding
 * @returns {Record<'title' | 'text', (finding: Finding) => string>}
 */
const wordsOf = (finding) => /** @type {Record<'title' | 'text', (finding: any) => string>} */ (KINDS[finding.kind]);

/**
 * A sentence that names a finding.
 * @param {Finding} finding
 */
export const titleOf = (finding) => wordsOf(finding).title(finding);

/**
 * What was found, and when.
 * @param {Finding} finding
 */
export const textOf = (finding) => `${wordsOf(finding).text(finding)} Found at ${timeText(finding.found)}.`;
