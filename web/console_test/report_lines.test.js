// A report that is no text, or has a line that is longer than one may be, fails with a code.
import assert from 'node:assert/strict';
import test from 'node:test';
import { checkReport, linesOf } from '../console/lib/report.js';

/** @param {Uint8Array[]} chunks */
const streamOf = (chunks) => new ReadableStream({
  pull(out) {
    const chunk = chunks.shift();
    if (chunk) out.enqueue(chunk);
    else out.close();
  },
});
const bytes = (text) => new TextEncoder().encode(text);

test('lines are split wherever chunks end', async () => {
  const text = 'a\n\nbü\nc';
  for (let size = 1; size <= 9; size++) {
    const all = bytes(text);
    const chunks = [];
    for (let at = 0; at < all.length; at += size) chunks.push(all.slice(at, at + size));
    const lines = [];
    for await (const line of linesOf(streamOf(chunks))) lines.push(new TextDecoder().decode(line));
    assert.deepEqual(lines, ['a', '', 'bü', 'c'], `in chunks of ${size}`);
  }
});

test('what is no UTF-8 fails as MALFORMED', async () => {
  const found = await checkReport(linesOf(streamOf([bytes('{"format":"attestd-report/v1",'), Uint8Array.of(0xff, 0x0a)])), {});
  assert.deepEqual([found.verdict, found.code, found.reason], ['fails', 'MALFORMED', 'it is not UTF-8']);
});

test('a line that never ends fails as MALFORMED, and is not held', async () => {
  let given = 0;
  const endless = new ReadableStream({ pull(out) { given += 1 << 20; out.enqueue(new Uint8Array(1 << 20).fill(0x20)); } });
  const found = await checkReport(linesOf(endless), {});
  assert.deepEqual([found.verdict, found.code], ['fails', 'MALFORMED']);
  assert.ok(given < 80 << 20, `${given} bytes were read`);
});

test('an error of the network is none of the report', async () => {
  const broken = new ReadableStream({ pull() { throw new TypeError('network error'); } });
  await assert.rejects(checkReport(linesOf(broken), {}), /network error/);
});
