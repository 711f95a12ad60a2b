// @ts-check
// The whole chain, recomputed away from the page. The run goes on while other pages are shown, and
// its result stays.
import { WholeLog } from '../lib/whole_log.js';
import { getCredential, refused } from './api.js';
import { readArchives } from './archives.js';
import { checkedHere, checkerPorts } from './checker.js';
import { placeOf } from './findings.js';
import { timeText } from './format.js';
import { proveSince } from './growth.js';
import { headsOf, pinChecked, rewrittenSince } from './heads.js';
import { pauseElsewhere } from './pause.js';
import { plain } from './pool.js';
import { UNPROVEN, archiveOf } from './pruned.js';
import { refreshKey, signedIn } from './session.js';
import { store } from './store.js';
import { startWorker, whyFailed } from './worker.js';

const SCRIPT = '/verify_worker.js';

/** @type {Verification} */
const ready = { phase: 'ready', done: 0, total: 0, failures: 0, first: null, result: null, message: '' };

/**
 * phase: ready, running, done or error. result: what the worker found, {count, state, root,
 * contradicted, server, failures, engine, workers, seconds}, with {archives, key, companyId,
 * fingerprint, startedAt, endedAt}, where key is the one that it was checked with; message: why
 * there is none. While it runs, the result of the run before stays.
 */
export const verification = store(ready);

/** @type {Worker | null} */
let worker = null;

/** Ends a run; what an earlier one found stays. */
export function stop() {
  worker?.terminate();
  worker = null;
  const { result } = verification.get();
  verification.set({ ...ready, result, phase: result ? 'done' : 'ready' });
}

/** Forgets everything: another company is signed in. */
export function forget() {
  stop();
  verification.set(ready);
}

/** Reads and checks the whole chain; resolves to the result, and to null where there is none. */
export function start() {
  worker?.terminate();
  return new Promise((resolve) => {
    const mine = startWorker(SCRIPT);
    worker = mine;
    const startedAt = new Date().toISOString();
    verification.set({ ...ready, result: verification.get().result, phase: 'running' });
    /** @param {Partial<Verification>} patch */
    const end = (patch) => {
      if (worker !== mine) return resolve(null);
      mine.terminate();
      worker = null;
      verification.set(patch);
      resolve(patch.result ?? null);
    };
    /** @param {Error} err */
    const fail = (err) => end({ phase: 'error', message: err.message });
    mine.onerror = async (event) => fail(await whyFailed(event, SCRIPT));
    run(mine, startedAt, end).catch(fail);
  });
}

/**
 * @param {Worker} mine
 * @param {string} startedAt
 * @param {(patch: Partial<Verification>) => void} end
 */
async function run(mine, startedAt, end) {
  const key = await refreshKey(signedIn().key.companyId);
  // What was seen before must still be there: a chain that was rewritten as a whole verifies as
  // well as any.
  const shown = await proveSince(key);
  if (worker !== mine) return;
  verification.set({ total: shown[0].size });
  /** @param {VerifyAnswer} data */
  const finish = async (data) => {
    const archives = data.pruned ? await readArchives(data.lastPruned + 1) : [];
    const result = {
      ...data,
      failures: withUnproven(data, archives),
      archives,
      key,
      companyId: key.companyId,
      fingerprint: key.fingerprint,
      startedAt,
      endedAt: new Date().toISOString(),
    };
    if (worker !== mine) return;
    if (result.contradicted)
      rewrittenSince(key, 'actions', result.contradicted.head, { from: result.contradicted.from, now: result.count });
    if (holds(result)) pinChecked(key, 'actions', new WholeLog(result.state));
    end({ phase: 'done', result, done: result.count, failures: result.failures.count, first: result.failures.first });
  };
  mine.onmessage = ({ data }) => {
    if (worker !== mine) return;
    if (data.type === 'progress') verification.set({ done: data.done, failures: data.failures, first: data.first });
    else if (data.type === 'pause') pauseElsewhere(data.until);
    else if (data.type === 'refused') refused(data.credential, data.message);
    else if (data.type === 'error') end({ phase: 'error', message: data.message });
    else finish(data).catch(({ message }) => end({ phase: 'error', message }));
  };
  const ports = checkerPorts((err) => end({ phase: 'error', message: err.message }));
  mine.postMessage(
    {
      credential: getCredential(),
      key: plain(key),
      ports,
      heads: headsOf(key, 'actions'),
      seen: checkedHere(key, 'actions'),
    },
    ports,
  );
}

/**
 * What failed in a run; the last record that was pruned does so where no archive has it.
 * @param {VerifyAnswer} found
 * @param {Archive[]} archives
 * @returns {VerifyAnswer['failures']}
 */
function withUnproven({ failures: { count, first, list }, pruned, lastPruned }, archives) {
  if (!pruned || archiveOf(archives, lastPruned)) return { count, first, list };
  const failed = { index: lastPruned, reason: UNPROVEN };
  return { count: count + 1, first: first && first.index < lastPruned ? first : failed, list: [...list, failed] };
}

/**
 * Whether nothing that a run has read fails, and it has grown from what was seen before, and has
 * the root that the server names. Of a record whose payload was pruned, only the hash is known.
 * @param {VerifyAnswer} found
 */
export const holds = ({ failures, root, server, contradicted }) =>
  !failures.first && !contradicted && server.valid && server.merkleRoot === root;

/**
 * Both verdicts in words: ours, the server's, and whether they are one. rewritten is as in heads,
 * and failure a finding of what failed at another time.
 * @param {VerifyResult} result
 * @param {Finding | null} rewritten
 * @param {FailureFinding | null} failure
 */
export function compare(result, rewritten, failure) {
  const { failures, root, server } = result;
  const ours = failures.first;
  if (rewritten || result.contradicted)
    return { ok: false, text: 'Whether or not the log verifies now, it is not the log that this browser saw before.' };
  if (holds(result) && failure)
    return {
      ok: false,
      text: `Every record verifies now. But at ${timeText(failure.found)} ` +
        `${placeOf(failure.failedAt)} failed: ${failure.reason}. ` +
          `The server showed something else then.`,
    };
  if (holds(result) && result.pruned)
    return {
      ok: false,
      pruned: true,
      text: `The chain roots are equal, and the company has signed the hash of every record. But the payloads of ` +
        `${result.pruned} of the ${result.count} records were pruned: what these said cannot be checked here.`,
    };
  if (holds(result))
    return { ok: true, text: 'Your browser and the server agree: every record verifies, and the chain roots match.' };
  if (!ours && server.valid)
    return { ok: false, text: 'Every record verifies, but the server reports another chain root.' };
  if (ours && !server.valid && ours.index === server.failedAtIndex)
    return { ok: false, text: `Your browser and the server agree: the chain fails at record ${ours.index}.` };
  if (!ours)
    return {
      ok: false,
      text: `Every record that the server sent verifies, but the server says that the chain fails at ` +
        `${server.failedAtIndex}: ${server.error}`,
    };
  return {
    ok: false,
    text: `Your browser finds that the chain fails at record ${ours.index}; the server ` +
      `${server.valid ? 'says that it is valid' : `says that it fails at ${server.failedAtIndex}`}.`,
  };
}
