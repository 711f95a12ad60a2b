// @ts-check
// One verdict on a token, above all that was found out about it. It is green where the token can be
// used now and nothing is left to ask.
import { titleOf } from './finding_words.js';
import { timeText } from './format.js';
import { iso } from '../lib/token.js';
import { PART, isGreen } from './verdict.js';

const CLOCK = 30; // seconds by which two clocks may differ before it is reported
const FRESH = 300; // seconds; an older statement that a token is not revoked may be from before it was
const AHEAD = 60; // seconds that the server's clock may be ahead of this one
const TIMES = ['Not before',
  'Expiry']; // the checks of token.js that time alone decides: they are decided here, again and again

/**
 * Whether the server's clock, {offset, error} in seconds, differs from this computer's by more than
 * can be overlooked.
 * @param {{offset: number, error: number}} clock
 */
export const clockDiffers = ({ offset, error }) => Math.abs(offset) - error > CLOCK;

/** @type {[number, string][]} */
const UNITS = [[86400, 'day'], [3600, 'hour'], [60, 'minute'], [1, 'second']];

/** @param {number} seconds */
function roughly(seconds) {
  const [size, unit] = UNITS.find(([one]) => seconds >= 1.5 * one) ?? UNITS[3];
  const n = Math.round(seconds / size);
  return `${n} ${unit}${n === 1 ? '' : 's'}`;
}

/** @param {{offset: number}} clock */
export const clockWords = ({ offset }) =>
  `Your clock differs by ${roughly(Math.abs(offset))}: it is ${offset > 0 ? 'behind' : 'ahead of'} the server’s. One ` +
    `of the two is wrong.`;

/**
 * @param {{nbf?: number, exp?: number}} claims
 * @param {number} now
 */
const phaseAt = ({ nbf = -Infinity, exp = -Infinity }, now) =>
  (exp <= now ? 'expired' : nbf > now ? 'not yet' : 'usable now');
/** @param {number | undefined} seconds */
const at = (seconds) => timeText(iso(seconds));

/**
 * The verdict on a token: {is, tone, why}. found: checks as of token.js, or null where they could
 * not be made, with why not in problem; status, the statement on revocation whose signature was
 * checked, or null, with why not in unasked; statusProblem, why a statement is worth nothing;
 * disabledAt, when the server says that the agent was disabled. now is in seconds, clock as for
 * clockDiffers, judge as judgeOf.
 * @param {TokenToAssess} of
 */
export function verdictOf({ kind, claims, found, assess, now, clock }) {
  /**
   * @param {string} is
   * @param {string} why
   * @returns {TokenVerdict}
   */
  const bad = (is, why) => ({ is, tone: 'bad', why });
  /**
   * @param {string} is
   * @param {string} why
   * @returns {TokenVerdict}
   */
  const open = (is, why) => ({ is, tone: '', why });
  if (!found.checks) return open('not checked', found.problem ?? '');

  const failed = found.checks.filter((c) => !c.ok && !TIMES.includes(c.name)).map((c) => c.name);
  if (failed.some((name) => ['Algorithm', 'Key', 'Signature'].includes(name)))
    return bad(
      'forged, or signed by another key',
      'The key that this server publishes for the company did not sign this token.',
    );
  if (failed.length) return bad('not acceptable', `It is signed, but these checks failed: ${failed.join(', ')}.`);
  if (typeof claims.exp !== 'number') return bad('not acceptable', 'It has no expiry.');
  const { tone, own, is, against } = assess(true, PART);
  if (is === 'another key')
    return bad(
      'signed by another key',
      'Its key is not the one that you confirmed for this company, or that this browser remembers.',
    );

  const { status } = found;
  if (status?.status === 'revoked')
    return bad(
      'revoked',
      `At ${timeText(status.revokedAt ?? '')}${status.reason ? `: ${status.reason}` : ''}. ` +
        `The company’s key signed this status.`,
    );
  if (status?.status === 'unknown')
    return bad(
      'never issued',
      'The company’s key signed it, but the company says that it never issued a passport with this ID.',
    );
  if (found.statusProblem)
    return bad('revocation unknown', `The server’s revocation status is invalid: ${found.statusProblem}.`);
  if (found.disabledAt)
    return bad(
      'agent disabled',
      `The server says that the agent was disabled at ${timeText(found.disabledAt)}: it accepts nothing from this ` +
        `agent.`,
    );

  const mine = phaseAt(claims, now);
  const theirs = phaseAt(claims, now + clock.offset);
  const says = { expired: `It expired at ${at(claims.exp)}.`, 'not yet': `It is valid from ${at(claims.nbf)}.` };
  if (mine === theirs && mine !== 'usable now') return bad(mine, says[mine]);
  if (clockDiffers(clock)) {
    const same = mine === theirs ? '' : ` By your clock it is ${mine}; by the server’s, ${theirs}.`;
    return open(
      `your clock differs by ${roughly(Math.abs(clock.offset))}`,
      `${clockWords(clock)}${same} Correct the clock to find out whether it can be used now.`,
    );
  }
  if (mine !== 'usable now') return bad(mine, says[mine]);

  if (kind === 'passport' && !status)
    return open(
      'revocation not checked',
      `${found.unasked} All other checks passed, but this passport may have been revoked.`,
    );
  const age = status ? now - Date.parse(status.checkedAt) / 1000 : 0;
  if (age < -AHEAD || age > FRESH)
    return open(
      'revocation not checked',
      `The last status is from ${timeText(status?.checkedAt ?? '')}; the passport may have been revoked since.`,
    );
  const rest =
    status
      ? `It is not revoked, according to a status of ${timeText(status.checkedAt)} that the company’s key signed.`
      : `${kind === 'SVID' ? 'An SVID' : 'A delegation token'} cannot be revoked: it can be used until it expires.`;
  const caveats = [
    !isGreen(own) && 'But you haven’t confirmed the key: anybody could have created it.',
    against && `But ${titleOf(against)}`,
  ].filter(Boolean);
  return { is: 'usable now', tone, why: [rest, ...caveats].join(' ') };
}
