import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';
import { PART, isGreen, assessWith, verdict } from '../console/core/verdict.js';

const found = '2026-01-02T03:04:05.678Z';
const rewritten = { kind: 'rewritten', companyId: 'acme', found, log: 'control', size: 9, at: found, source: 'seen',
  from: 3, now: 9 };
const failure = { kind: 'failure', companyId: 'acme', found, failedAt: '7', reason: 'r', by: 'here' };
const inControl = { ...failure, log: 'control' };
const root = { ...failure, failedAt: 'the root' };
const key = { kind: 'key', companyId: 'acme', found, fingerprint: 'K2' };
const record = (index, log = 'actions') => ({ log, index });

test('without a finding the tone is that of the check and its key', () => {
  for (const about of [undefined, PART, record(7)]) {
    for (const [ok, keyState, tone, is] of [
      [true, 'confirmed', 'ok', 'checked'], [true, 'unconfirmed', 'warn', 'checked'],
        [true, 'other', 'bad', 'another key'], [false, 'confirmed', 'bad', 'fails'],
    ]) assert.deepEqual(verdict({ ok, keyState, found: [], about }), { tone, own: tone, is, against: null });
  }
});

test('a record without its payload is never green', () => {
  const about = { ...record(7), pruned: true };
  for (const [keyState, all, tone, is] of [
    ['confirmed', [], 'warn', 'payload pruned'], ['unconfirmed', [], 'warn', 'payload pruned'],
    ['other', [], 'bad', 'another key'], ['confirmed', [failure], 'bad', 'failed before'],
    ['confirmed', [rewritten], 'warn', 'payload pruned'],
  ]) {
    const said = verdict({ ok: false, keyState, found: all, about });
    assert.deepEqual([said.tone, said.is], [tone, is], `${keyState} ${JSON.stringify(all)}`);
    assert.ok(!isGreen(said.own));
  }
});

test('no finding leaves anything green that it bears on', () => {
  for (const [finding, about, tone] of [
    ...[rewritten, failure, inControl, root, key].map((one) => [one, undefined, 'bad']),
    [rewritten, PART, 'warn'], [key, PART, 'warn'], [failure, PART, 'ok'],
    [rewritten, record(1), 'warn'], [key, record(1), 'warn'], [root, record(1), 'ok'],
    [failure, record(7), 'bad'], [failure, record(8), 'ok'], [failure, record(7, 'control'), 'ok'],
      [inControl, record(7, 'control'), 'bad'], [inControl, record(7), 'ok'],
  ]) {
    const said = verdict({ ok: true, keyState: 'confirmed', found: [finding], about });
    assert.deepEqual([said.tone, said.own, said.against], [tone, 'ok', tone === 'ok' ? null : finding],
      `${JSON.stringify(finding)} and ${JSON.stringify(about)}`);
  }
  assert.equal(verdict({ ok: true, keyState: 'confirmed', found: [key, failure, rewritten] }).against, rewritten);
});

test('a assess takes the findings of its own company alone', () => {
  const own = { companyId: 'acme', fingerprint: 'K1' };
  const trusted = { confirmed: ['acme K1'], seen: [], latest: [] };
  assert.ok(isGreen(assessWith(own, trusted, { all: [{ ...rewritten, companyId: 'globex' }] })(true).tone));
  assert.ok(!isGreen(assessWith(own, trusted, { all: [rewritten] })(true).tone));
});

// Whatever is green has come through verdict(): nowhere else does the name of that tone stand, nor
// a class that is it.
test('no other module names the tone of what holds', () => {
  const folder = new URL('../console/', import.meta.url);
  const own = readdirSync(folder, { recursive: true }).filter((name) =>
    name.endsWith('.js') && !name.startsWith('vendor') && name !== 'core/verdict.js');
  for (const name of own) {
    const source = readFileSync(new URL(name, folder), 'utf8');
    assert.deepEqual(source.match(/(['"`])ok\1|class=(["'`])[^"'`]*(?<![.\w-])ok(?![\w-])|\b(kind|tone)=ok\b|--accent/g)
      ?? [], [], name);
  }
  assert.ok(own.length > 100);
});
