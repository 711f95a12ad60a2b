// Findings in plain sentences: for the banner that stands on every page, for verdicts, and for what
// is saved or printed.
import { visible } from '../lib/visible.js';
import { logOf } from './findings.js';
import { count, plural, timeText } from './format.js';

const SOURCES = { seen: 'this browser saw', checked: 'this browser checked', checkpoint: 'a checkpoint that you keep names' };

const placeOf = ({ failedAt, log }) => `${failedAt === 'the root' ? 'the root' : `record ${failedAt}`}${logOf({ log }) === 'control' ? ' of the control log' : ''}`;

const KINDS = {
  rewritten: {
    title: ({ log }) => `${log === 'control' ? 'The control log' : 'The history'} was rewritten.`,
    text: ({ size, at, source, from, now }) => `At ${timeText(at)} ${SOURCES[source]} ${plural(size, 'record')};${size > now ? ` the server now has ${count(now)}` : ' what the server shows now does not begin with them'}.`
      + (from > 0 ? ` Records before ${count(from)} are still what they were; between record ${count(from)} and ${count(size - 1)} something else stands there now, or nothing.` : '')
      + ' No one can tell from what the server shows what stood there: ask who runs it, and compare with evidence and checkpoints that you keep.',
  },
  failure: {
    title: (finding) => `Verification failed at ${placeOf(finding)}.`,
    text: ({ by, reason }) => `${by === 'server' ? 'The server said so' : 'Found by this browser'}: ${visible(reason) || 'no reason was given'}.`,
  },
  key: {
    title: ({ companyId }) => `The signing key of ${companyId} was replaced without proof.`,
    text: ({ fingerprint }) => `Nothing proved that the key which this server published, ${visible(fingerprint)}, follows from the known one.`,
  },
};

/** A sentence that names a finding. */
export const titleOf = (finding) => KINDS[finding.kind].title(finding);

/** What was found, and when. */
export const textOf = (finding) => `${KINDS[finding.kind].text(finding)} Found at ${timeText(finding.found)}.`;
