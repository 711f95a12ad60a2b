// @ts-check
// What this browser has verified of the company's log, in a few words: the one place that says in
// general that all is well.
import { count, plural } from './format.js';
import { placeOf } from './findings.js';
import { toneOfLive } from './live_state.js';

/**
 * {tone, says, page}: page is the one that leads further. assess: of assessWith, with the company's
 * key.
 * @param {LiveState} state
 * @param {Assess} assess
 * @returns {{tone: Tone, says: string, page: string}}
 */
export function verifiedOf(state, assess) {
  const { range, whole, agreed, failure, server, connection, problem } = state;
  const tone = toneOfLive(state, assess);
  const { against } = assess(true);
  const checked = range ? range.to - range.from : 0;
  const length = Math.max(server?.length ?? 0, range?.to ?? 0);
  if (failure) return { tone, says: `Log fails at ${placeOf(failure.failedAt)}`, page: 'verify' };
  const found = against?.kind === 'key' ? 'Signing key replaced' : 'History rewritten';
  if (against) return { tone, says: found, page: 'verify' };
  if (tone === 'bad') return { tone, says: 'The server says that its log fails', page: 'verify' };
  if (problem) return { tone, says: 'The log cannot be read', page: 'live' };
  if (connection === 'off' || connection === 'retrying') return { tone, says: 'Offline', page: 'live' };
  if (!server) return { tone, says: 'Reading the log …', page: 'live' };
  if (length === 0) return { tone, says: 'No records yet', page: 'live' };
  if (whole && agreed) return { tone, says: `${plural(checked, 'record')} verified`, page: 'verify' };
  return { tone, says: `${count(checked)} of ${plural(length, 'record')} verified`, page: 'verify' };
}
