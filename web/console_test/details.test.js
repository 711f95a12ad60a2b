import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';

import { covers, readDetails } from '../console/lib/details.js';
import { parse } from '../console/lib/json.js';

const cases = JSON.parse(readFileSync(new URL('../../crypto/cred/details/cases.json', import.meta.url), 'utf8'));

test('details cover the calls that they cover for the service', () => {
  for (const { details, calls } of cases.covers) {
    const source = JSON.stringify(details);
    const entries = readDetails(parse(source), source);
    for (const { tool, arguments: args, covered } of calls) {
      assert.equal(covers(entries, tool, args ?? undefined), covered, `${source} ${tool} ${args}`);
    }
  }
});

test('details that are not understood are refused', () => {
  for (const { details } of cases.refused) {
    assert.throws(() => readDetails(parse(details), details), undefined, details.slice(0, 200));
  }
});
