import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { jsonLines } from '../console/core/api.js';
import { foundRecord, matches, narrows, pathOf, searchOf, streamOf, timeOf } from '../console/core/search.js';
import { parse } from '../console/lib/json.js';
import { zip } from '../console/lib/zip.js';

// Lets fetch answer with a text that comes in small pieces, until f is done.
async function answering(text, f) {
  const { fetch, Request } = globalThis;
  globalThis.Request = class { headers = new Headers(); };
  const bytes = new TextEncoder().encode(text);
  globalThis.fetch = async () => new Response(new ReadableStream({
    start(controller) {
      for (let i = 0; i < bytes.length; i += 7) controller.enqueue(bytes.slice(i, i + 7));
      controller.close();
    },
  }));
  try {
    return await f();
  } finally {
    Object.assign(globalThis, { fetch, Request });
  }
}

const all = async (texts) => {
  const found = [];
  for await (const text of texts) found.push(text);
  return found;
};

test('an answer of lines is read as they come, and what was cut off is seen', async () => {
  const records = ['{"a":1}', '{"é":"{\\\\"}', '{}'];
  assert.deepEqual(await answering(records.join('\n') + '\n', () => all(jsonLines('/x'))), records);
  assert.deepEqual(await answering('', () => all(jsonLines('/x'))), []);
  assert.deepEqual(await answering('{"a":1}\n{"a":', () => all(jsonLines('/x'))), ['{"a":1}', '{"a":']);
});

test('events of a search are read as they come, with records of several lines', async () => {
  const search = searchOf({ q: 'x' }, 0);
  const text = 'event: record\ndata: {"a":\ndata: 1}\n\n: a comment\n\nevent: progress\ndata: ' +
    '{"read":5,"at":3,"size":9}\n\nevent: end\ndata: {"read":9,"found":1,"next":"c"}\n\n';
  assert.deepEqual(await answering(text, () => all(streamOf(search, '', 10))), [
    { text: '{"a":\n1}' }, { progress: { read: 5, at: 3, size: 9 } }, { end: { read: 9, found: 1, next: 'c', pruned: 0 } },
  ]);
  await assert.rejects(answering(text.slice(0, text.indexOf('event: end')), () => all(streamOf(search, '', 10))),
    /ended the search early/);
});

test('a time is read as people type it, in UTC, and nothing that is none', () => {
  for (const [typed, exact] of [
    ['2026-03-02', '2026-03-02T00:00:00.000Z'], [' 2026-03-02 09:05', '2026-03-02T09:05:00.000Z'],
      ['2026-03-02T09:05:04.218Z', '2026-03-02T09:05:04.218Z'],
    ['2026-03-02 09:05:04.2 Z', '2026-03-02T09:05:04.200Z'],
  ]) assert.equal(timeOf(typed), exact);
  for (const typed of ['', '2026', '2026-02-30', '2026-03-02 25:00', '2026-03-02T09:05:04+01:00',
    'now']) assert.equal(timeOf(typed), null, typed);
});

test('what the URL asks for is what the server is asked for', () => {
  const now = Date.parse('2026-03-02T10:00:00.000Z');
  const search = searchOf({ agent: 'a&b', last: '1h', order: 'oldest', failures: '1', other: 'x' }, now);
  assert.deepEqual(search, { agent: 'a&b', action: '', delegatedBy: '', since: '2026-03-02T09:00:00.000Z', until: '',
    decision: '', policy: '', q: '', payload: '', hash: '', order: 'oldest', failures: true });
  assert.equal(pathOf(search, { order: search.order, cursor: '' }),
    '/v1/records?agent=a%26b&since=2026-03-02T09%3A00%3A00.000Z&order=oldest');
  assert.ok(narrows(search) && !narrows(searchOf({ order: 'oldest', failures: '1', last: 'constructor' }, now)));
});

test('a record matches as it does on the server, and one that was not asked for is refused', () => {
  const record = {
    hash: 'ab'.repeat(32), agentId: 'bot', actionType: 'pay.send', timestamp: '2026-03-02T09:00:00.000Z',
      delegation: { subject: 's', chain: ['s', 'm', 'bot'] },
    inner: parse('{"Key":["ÄB\\u0043", 12, {"x":null}]}'), decision: { verdict: 'deny', by: ['no-force#1'] },
  };
  const asks = (query) => matches(record, searchOf(query, 0));
  for (const query of [{}, { agent: 'bot' }, { action: 'pay.send' }, { action: 'pay.*' }, { action: '*' },
    { delegatedBy: '*' }, { delegatedBy: 's' }, { delegatedBy: 'm' },
    { since: record.timestamp }, { until: '2026-03-02T09:00:00.001Z' }, { q: 'bc' }, { q: 'KEY' }, { q: 'Äb' },
      { hash: 'Ab'.repeat(32) }, { decision: 'deny', policy: 'no-force' }]) assert.ok(asks(query), JSON.stringify(query));
  for (const query of [{ agent: 'bo' }, { action: 'pay' }, { action: 'pay.sen' }, { delegatedBy: 'bot' },
    { until: record.timestamp }, { since: '2026-03-02T09:00:00.001Z' },
    { q: 'äb' }, { q: '12' }, { q: 'null' }, { hash: 'ac'.repeat(32) }, { decision: 'ask' }, { policy: 'no' }]) assert.ok(!asks(query), JSON.stringify(query));

  const hash = '0'.repeat(64);
  const source = `{"index":3,"timestamp":"2026-03-02T09:00:00.000Z","payload":{"agentId":"bot","companyId":"c","actionType":"x","payload":1},"hash":"${hash}","signature":"${'A'.repeat(86)}"}`;
  const given = { node: parse(source), source };
  assert.equal(foundRecord(given, searchOf({ agent: 'bot', q: 'whatever' }, 0)).index, 3);
  assert.throws(() => foundRecord(given, searchOf({ agent: 'other' }, 0)), /record 3 is not one that was asked for/);
});

test('an archive is one that others open', () => {
  const dir = mkdtempSync(join(tmpdir(), 'attestd-zip'));
  try {
    const files = [{ name: 'one.json', text: '{"é":1}\n' }, { name: 'two.json', text: '' }];
    writeFileSync(join(dir, 'a.zip'), zip(files, new Date('2026-03-02T09:05:04Z')));
    const read = "import json,sys,zipfile\nz=zipfile.ZipFile(sys.argv[1])\nassert z.testzip() is " +
      "None\nprint(json.dumps([[n, z.read(n).decode()] for n in z.namelist()]))";
    assert.deepEqual(JSON.parse(execFileSync('python3', ['-c', read, join(dir, 'a.zip')], { encoding: 'utf8' })),
      files.map(({ name, text }) => [name, text]));
  } finally {
    rmSync(dir, { recursive: true });
  }
});
