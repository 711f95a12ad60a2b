// @ts-check
// Findings in plain sentences: for the banner that stands on every page, for verdicts, and for what
// is saved or printed.
import { visible } from '../lib/visible.js';
import { logOf } from './findings.js';
import { count, plural, timeText } from './format.js';

const SOURCES = {
  seen: 'this browser saw',
  checked: 'this browser verified',
  checkpoint: 'a checkpoint that you saved has',
};

const placeOf = ({ failedAt, log }) =>
  `${failedAt === 'the root' ? 'the root' : `record ${failedAt}`}${logOf({ log }) === 'control' ? ' of the control log'
    : ''}`;

const KINDS = {
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
    title: (finding) => `Verification failed at ${placeOf(finding)}.`,
    text: ({ by, reason }) =>
      `${by === 'server' ? 'Reported by the server' : 'Found by this browser'}: ` +
        `${visible(reason) || 'no reason was given'}.`,
  },
  key: {
    title: ({ companyId }) => `The signing key of ${companyId} was replaced without proof.`,
    text: ({ fingerprint }) =>
      `No rotation proved that the key published by this server, ${visible(fingerprint)}, follows from the known key.`,
  },
};

/** A sentence that names a finding. */
export const titleOf = (finding) => KINDS[finding.kind].title(finding);

/** What was found, and when. */
export const textOf = (finding) => `${KINDS[finding.kind].text(finding)} Found at ${timeText(finding.found)}.`;
