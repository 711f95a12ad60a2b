import assert from 'node:assert/strict';
import test from 'node:test';
import { changeOf, keyStateOf } from '../console/core/trust.js';
import { clockDiffers, verdictOf } from '../console/core/token_verdict.js';
import { verdict } from '../console/core/verdict.js';

const now = 1_800_000_000;
const iso = (seconds) => new Date(seconds * 1000).toISOString();
const judging = (keyState, found = []) => (ok, about) => verdict({ ok, keyState, found, about });
const rewritten = { kind: 'rewritten', companyId: 'acme', found: '2026-01-02T03:04:05.678Z', log: 'control', size: 9,
  at: '2026-01-02T03:04:05.678Z', source: 'seen', from: 3, now: 9 };
const right = { offset: 0, error: 0.6 };
const ask = (more = {}) => verdictOf({
  kind: 'passport', claims: { nbf: now - 10, exp: now + 3600, ...more.claims }, assess: judging('confirmed'), now,
    clock: right, ...more.given,
  found: { checks: [{ name: 'Signature', ok: true }, { name: 'Expiry', ok: true }],
    status: { status: 'valid', checkedAt: iso(now - 1) }, unasked: 'You are signed out.', ...more.found },
});
const failed = (name) => ({ checks: [{ name, ok: false }] });
const revoked = { status: 'revoked', revokedAt: iso(now - 90000), checkedAt: iso(now - 80000) };

// Each row holds what is wrong, the verdict, and its tone; what stands further up wins over what
// stands below it.
const cases = [
  ['nothing', {}, 'usable now', 'ok'],
  ['a key that nobody confirmed', { given: { assess: judging('unconfirmed') } }, 'usable now', 'warn'],
  ['a history that was rewritten', { given: { assess: judging('confirmed', [rewritten]) } }, 'usable now', 'warn'],
  ['another key', { given: { assess: judging('other') } }, 'signed by another key', 'bad'],
  ['the signature', { found: { ...failed('Signature'), status: revoked } }, 'forged, or signed by another key', 'bad'],
  ['the audience', { found: failed('Audience') }, 'not acceptable', 'bad'],
  ['no expiry', { claims: { exp: undefined } }, 'not acceptable', 'bad'],
  ['revoked, however old the statement is', { found: { status: revoked }, claims: { exp: now - 5 } }, 'revoked', 'bad'],
  ['never issued', { found: { status: { status: 'unknown', checkedAt: iso(now) } } }, 'never issued', 'bad'],
  ['a forged statement', { found: { status: null, statusProblem: 'this key did not sign it' } }, 'revocation unknown',
    'bad'],
  ['an agent that was disabled', { found: { disabledAt: iso(now - 9), status: null }, given: { kind: 'SVID' } },
    'agent disabled', 'bad'],
  ['its end', { claims: { exp: now } }, 'expired', 'bad'],
  ['its beginning', { claims: { nbf: now + 1 } }, 'not yet', 'bad'],
  ['expired, by both clocks', { claims: { exp: now - 700 }, given: { clock: { offset: -60, error: 1 } } }, 'expired',
    'bad'],
  ['expired by one clock', { claims: { exp: now - 60 }, given: { clock: { offset: -600, error: 1 } } },
    'your clock differs by 10 minutes', ''],
  ['a clock that is behind', { given: { clock: { offset: 600, error: 1 } } }, 'your clock differs by 10 minutes', ''],
  ['a clock of which nothing is sure', { given: { clock: { offset: 600, error: 590 } } }, 'usable now', 'ok'],
  ['nobody asked', { found: { status: null } }, 'revocation not checked', ''],
  ['a statement of six minutes ago', { found: { status: { status: 'valid', checkedAt: iso(now - 360) } } },
    'revocation not checked', ''],
  ['a statement of tomorrow', { found: { status: { status: 'valid', checkedAt: iso(now + 86400) } } },
    'revocation not checked', ''],
  ['an SVID, which cannot be revoked', { found: { status: null }, given: { kind: 'SVID' } }, 'usable now', 'ok'],
  ['no key to check it with', { found: { checks: null, problem: 'The server does not answer.' } }, 'not checked', ''],
];
for (const [name, wrong, is, tone] of cases) {
  test(`the verdict with ${name} is ${is}`, () => {
    const verdict = ask(wrong);
    assert.deepEqual([verdict.is, verdict.tone], [is, tone]);
    assert.ok(verdict.why);
  });
}

test('two clocks differ where the flight of the answer does not explain it', () => {
  assert.equal(clockDiffers({ offset: 31, error: 0.6 }), true);
  assert.equal(clockDiffers({ offset: -31, error: 0.6 }), true);
  assert.equal(clockDiffers({ offset: 30, error: 0.6 }), false);
  assert.equal(clockDiffers({ offset: 0, error: Infinity }), false);
});

test('a key that a server publishes is the one that is remembered, or follows from it', () => {
  const [one, two, three] = ['SHA256:1', 'SHA256:2', 'SHA256:3'].map((fingerprint) =>
    ({ companyId: 'acme', fingerprint, published: true }));
  const state = { seen: ['acme SHA256:1 2026-01-01T00:00:00.000Z'], confirmed: ['acme SHA256:3'] };
  assert.equal(changeOf(one, state), null);
  assert.equal(changeOf({ ...two, companyId: 'other' }, state), null);
  assert.deepEqual(changeOf({ ...three, ring: [one, two, three] }, state).rotations,
    [{ old: one, next: two }, { old: two, next: three }]);
  assert.equal(changeOf({ ...three, ring: [two, three] }, state).replaced, true);
  assert.equal(keyStateOf({ ...three, ring: [two, three] }, state), 'other', 'although it was confirmed');
  assert.equal(keyStateOf({ ...three, published: false }, state), 'confirmed',
    'a file’s key is held to what was confirmed alone');
  assert.equal(keyStateOf({ ...three, ring: [one, two, three] }, state), 'confirmed');
});
