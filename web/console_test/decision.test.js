import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { decisionForm } from '../console/lib/decision.js';
import { read } from '../console/lib/form.js';
import { callWords } from '../console/core/call_words.js';
import { parseRecord } from '../console/lib/record.js';

const { DecisionView, DecisionWord } = await import('../console/parts/decision.js');
const cases = JSON.parse(readFileSync(new URL('../../chain/decision/cases.json', import.meta.url), 'utf8'));

// The text of what a component gives, with those that it holds.
function textOf(node) {
  if (Array.isArray(node)) return node.map(textOf).join('');
  if (node === null || typeof node !== 'object') return ['boolean', 'undefined'].includes(typeof node) || node === null ? '' : String(node);
  if (typeof node.type !== 'function') return textOf(node.props.children);
  return node.type.name === 'JSONView' ? 'JSON' : textOf(node.type(node.props));
}

test('the console takes the decisions that every checker takes', () => {
  for (const { name, decision, good } of cases) {
    const is = () => read(decisionForm, decision, 'decision');
    if (good) assert.ok(is().verdict, name);
    else assert.throws(is, undefined, name);
  }
});

test('a decision is told with its policies and its context', () => {
  const { decision } = cases.find(({ name }) => name === 'all members');
  const view = textOf(DecisionView({ of: read(decisionForm, decision, 'decision') }));
  for (const part of ['denied by payments', 'POLICY_DENIED', 'limits#1', 'revision 3', 'a-1', 'attest', 'ops', 'tool:*', 'idp.example#alice',
    'by a key of the agent', 'JSON', 'spiffe://attestd.local/company/acme'])
    assert.ok(view.includes(part), `${part} in ${view}`);
  const words = [['allow', '', /^allowed by all$/], ['deny', 'POLICY_DENIED', /^denied POLICY_DENIED$/], ['ask', '', /^approval needed by all$/]];
  for (const [verdict, code, want] of words)
    assert.match(textOf(DecisionWord({ of: { verdict, by: code ? [] : ['all'], code } })).trim(), want);
});

test('the words of a record have its decision', () => {
  const { decision } = cases[0];
  const record = (more) => parseRecord(`{"index":0,"timestamp":"2026-11-21T09:00:01.000Z","payload":{"agentId":"bot","companyId":"acme","actionType":
    "tool.requested","payload":{"tool":"Bash"}${more}},"hash":"${'0'.repeat(64)}","signature":"${'A'.repeat(86)}"}`);
  assert.deepEqual(callWords(record(`,"decision":${decision}`)).decided, { verdict: 'deny', by: ['payments'], code: 'POLICY_DENIED' });
  assert.equal(callWords(record('')).decided, undefined);
  assert.throws(() => record(`,"decision":{"verdict":"deny"}`));
});
