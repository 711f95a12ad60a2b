// Which things of the last day need a look, and how dark a number of records is.
import assert from 'node:assert/strict';
import test from 'node:test';
import { sentenceOfDay } from '../console/core/day.js';
import { lastHours, needsALook, shadeOf } from '../console/core/attention.js';

const now = Date.parse('2026-03-02T09:30:00.000Z');
const nothing = { sessions: [], credentials: [], webhooks: [], federations: [], service: { status: 'ready' }, waiting: 0 };
/** @param {object} more */
const words = (more) => needsALook({ ...nothing, ...more }, now).map((one) => `${one.words} → ${one.page}`);

test('the last hours end with this one', () => {
  assert.deepEqual(lastHours(now), { since: '2026-03-01T10:00:00.000Z', until: '2026-03-02T10:00:00.000Z' });
});

test('the last hours are full hours of the reader', () => {
  const of = (at, ahead) => Object.values(lastHours(Date.parse(at), ahead));
  assert.deepEqual(of('2026-03-02T09:29:59.999Z', 330), ['2026-03-01T09:30:00.000Z', '2026-03-02T09:30:00.000Z']); // India
  assert.deepEqual(of('2026-03-02T09:30:00.000Z', 330), ['2026-03-01T10:30:00.000Z', '2026-03-02T10:30:00.000Z']);
  assert.deepEqual(of('2026-03-02T09:30:00.000Z', 345), ['2026-03-01T10:15:00.000Z', '2026-03-02T10:15:00.000Z']); // Nepal
  assert.deepEqual(of('2026-03-02T09:29:59.999Z', -210), ['2026-03-01T09:30:00.000Z', '2026-03-02T09:30:00.000Z']); // Newfoundland
  assert.deepEqual(of('2026-03-02T09:30:00.000Z', -300), Object.values(lastHours(now)));
});

test('nothing needs a look where nothing happened, and what may not be read says nothing', () => {
  assert.deepEqual(words({}), []);
  assert.deepEqual(words({ credentials: null, webhooks: null, federations: null }), []);
});

test('each thing that needs a look leads to its rows', () => {
  assert.deepEqual(words({ sessions: [{ state: 'gap' }, { state: 'open' }, { state: 'sealed' }] }), ['1 session with missing steps → sessions']);
  assert.deepEqual(words({ sessions: [{ state: 'disobeyed', completeness: 'gap' }, { state: 'broken' }, { state: 'disobeyed', completeness: 'sealed' }] }),
    ['1 session with missing steps → sessions', '1 session whose statements contradict one another → sessions']);
  const ends = ['2026-03-02T09:29:00.000Z', '2026-03-02T09:31:00.000Z', '2026-03-16T09:29:00.000Z', '2026-03-16T09:31:00.000Z'];
  assert.deepEqual(words({ credentials: [{}, ...ends.map((expiresAt) => ({ expiresAt }))] }), ['2 keys or clients will expire within two weeks → keys']);
  const webhooks = [{ failedAttempts: 0 }, { failedAttempts: 2 }, { failedAttempts: 0, disabledAt: 'then' }];
  assert.deepEqual(words({ waiting: 1 }), ['1 call waits for you → approvals']);
  assert.deepEqual(words({ waiting: 2 }), ['2 calls wait for you → approvals']);
  assert.deepEqual(words({ webhooks }), ['2 webhooks failing or disabled → webhooks']);
  assert.deepEqual(words({ federations: [{ keys: { failure: 'no answer' } }, { keys: {} }] }), ['1 federation whose keys could not be fetched → federation']);
});

test('what the service says of itself needs a look only where something is wrong', () => {
  const of = (/** @type {object} */ service) => words({ service });
  assert.deepEqual(of({ status: 'ready', headFile: 'written' }), []);
  assert.deepEqual(of({ status: 'ready', headFile: 'behind' }), ['The service cannot write its head file → reference']);
  assert.deepEqual(of({ status: 'ready', witnessesBehind: 1 }), ['1 witness that does not cosign every log → checkpoints']);
  assert.deepEqual(of({ status: 'degraded', witnessesBehind: 2, witnessAlarms: 3 }),
    ['3 logs contested by a witness → checkpoints', '2 witnesses that do not cosign every log → checkpoints']);
  assert.deepEqual(of({ status: 'degraded', rolledBack: 1, tablesChanged: 2, cosigner: 'behind' }),
    ['1 company halted: a log was rolled back → reference', '2 companies whose tables were changed → reference',
      'The service, as a witness, cosigns nothing → reference']);
  assert.deepEqual(of({ status: 'ROLLED_BACK' }), ['The service writes nothing now: ROLLED_BACK → reference']);
  assert.deepEqual(of({ status: 'unknown' }), ['The state of the service could not be read → reference']);
});

test('a shade grows with the number, from none to the fifth', () => {
  for (const most of [1, 2, 7, 1000, 1e6]) {
    assert.equal(shadeOf(0, most), 0);
    let last = 0;
    for (let n = 1; n <= most; n = n < 10 ? n + 1 : n * 2) {
      const shade = shadeOf(n, most);
      assert.ok(shade >= Math.max(1, last) && shade <= 5, `${n} of ${most}: ${shade}`);
      last = shade;
    }
    assert.equal(shadeOf(most, most), 5);
  }
});

test('the last day is one sentence: what came out badly, and whether the log is intact', () => {
  const call = (what) => ({ words: { tool: 'Bash', what, kind: 'command', outcome: 'denied', why: 'no', output: '' } });
  const day = (more) => ({ disobeyed: [], decided: { deny: 0, ask: 0 }, denied: { total: 0, shown: [] }, failed: { total: 0 }, ...more });
  const since = '2026-11-12T09:14:00.000Z';
  assert.equal(sentenceOfDay(day({}), [], since),
    'No call was denied or failed in the last 24 hours. Log intact since 2026-11-12 09:14 UTC.');
  assert.equal(sentenceOfDay(day({ denied: { total: 1, shown: [call('git push --force origin main')] } }), [], since),
    '1 call denied: Bash git push --force origin main. Log intact since 2026-11-12 09:14 UTC.');
  assert.equal(sentenceOfDay(day({ disobeyed: [{}], denied: { total: 3, shown: [call('a')] }, failed: { total: 2 } }), [], ''),
    '1 refused call ran all the same, 3 calls denied, 2 calls failed.');
  assert.equal(sentenceOfDay(day({ decided: { deny: 2, ask: 1 } }), [], ''),
    '2 requests denied by the service, 1 request without an approval.');
  const long = sentenceOfDay(day({ denied: { total: 1, shown: [call('\u{1f600}'.repeat(100))] } }), [], '');
  assert.ok(long.length < 120 && long.isWellFormed(), long);
  const finding = { kind: 'failure', companyId: 'acme', found: since, failedAt: '12', reason: 'x', by: 'here' };
  assert.equal(sentenceOfDay(day({}), [finding], since),
    'No call was denied or failed in the last 24 hours. Verification failed at record 12.');
});
