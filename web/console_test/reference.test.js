import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { follow, openAPI, search } from '../console/core/openapi.js';
import { address, bodyOf, curl } from '../console/lib/curl.js';
import { read } from '../console/lib/form.js';
import { parse } from '../console/lib/json.js';
import { inline, parseMarkdown } from '../console/lib/markdown.js';

const source = readFileSync(process.env.ATTESTD_TEST_OPENAPI, 'utf8'); // which TestConsoleModules writes
const plainDocument = JSON.parse(source);
const read1 = read(openAPI, source, 'the document');

// The text of parsed Markdown, without its code.
function prose(tree) {
  if (typeof tree === 'string') return tree;
  if (Array.isArray(tree)) return tree.map(prose).join('\n');
  if (tree.type === 'code') return '';
  return [tree.content, tree.items, tree.head, tree.rows].filter(Boolean).map(prose).join('\n');
}

function descriptions(value, out = []) {
  if (value && typeof value === 'object') {
    for (const [key, inner] of Object.entries(value)) {
      if (key === 'description' && typeof inner === 'string') out.push(inner);
      else descriptions(inner, out);
    }
  }
  return out;
}

test('no mark of Markdown is left in the text of any description', () => {
  for (const text of descriptions(plainDocument)) {
    const left = prose(parseMarkdown(text));
    assert.doesNotMatch(left, /\*\*|`|^\s*(#|\||- |\d+\. )|\]\(|\*\S[^*]*\S\*/m, left);
  }
});

test('Markdown in a line', () => {
  assert.deepEqual(inline('a `b*c*` **d `e`** *f*, 2 * 3 * 4'), [
    'a ', { type: 'code', text: 'b*c*' }, ' ', { type: 'strong', content: ['d ', { type: 'code', text: 'e' }] }, ' ',
      { type: 'em', text: 'f', content: ['f'] }, ', 2 * 3 * 4']);
  assert.deepEqual(inline('[x](https://a.example/b) [y](javascript:alert(1)) <b>z</b>'), [
    { type: 'link', to: 'https://a.example/b', content: ['x'] }, ' [y](javascript:alert(1)) <b>z</b>']);
});

test('Markdown in blocks', () => {
  const found = parseMarkdown('## A b\ntext\nmore\n\n- one\n  two\n- three\n\n1. x\n   y\n\n```js\n- code\n```\n| a ' +
    '| `b|c` |\n|---|---|\n| 1 | \\| |\n');
  assert.deepEqual(found.map(({ type }) => type), ['heading', 'paragraph', 'list', 'list', 'code', 'table']);
  assert.equal(found[0].id, 'A-b');
  assert.deepEqual(found[2].items.map((item) => prose(item)), ['one two', 'three']);
  assert.equal(found[3].ordered, true);
  assert.equal(found[4].text, '- code');
  assert.deepEqual(found[5].head[1], [{ type: 'code', text: 'b|c' }]);
  assert.deepEqual(found[5].rows, [[['1'], ['|']]]);
});

test('every operation and every reference of the document is read, and every place has a name of its own', () => {
  const wanted = Object.values(plainDocument.paths).flatMap((item) => Object.values(item).map((op) => op.operationId));
  const got = read1.resources.flatMap(({ operations }) => operations);
  assert.deepEqual(got.map(({ id }) => id).sort(), wanted.sort());
  const names = [...read1.sections, ...read1.resources, ...read1.resources.flatMap(({ sections }) => sections),
    ...got].map(({ id }) => id);
  assert.equal(new Set(names).size, names.length);
  for (const [name, schema] of read1.schemas) assert.ok(Object.keys(follow({ $ref: `#/components/schemas/${name}` },
    read1.schemas)).length > 1, name + schema);
});

test('a document that is none is refused, and so is a reference into nothing', () => {
  assert.throws(() => read(openAPI, '{"info":{"title":{"type":"div"},"version":"1"},"tags":[],"paths":{}}', 'it'),
    /it\.info\.title is not a string/);
  const broken = source.replace('#/components/responses/Unauthorized', '#/components/responses/Nothing');
  assert.throws(() => read(openAPI, broken, 'it'), /has no #\/components\/responses\/Nothing/);
  assert.throws(() =>
    read(openAPI, source.replace('#/components/responses/Unauthorized', '#/components/constructor/name'), 'it'),
      /has no/);
});

test('search looks at paths, names and prose, and puts heads first', () => {
  assert.equal(search(read1.resources, 'post attest')[0].id, 'attest');
  assert.ok(search(read1.resources, 'idempotency-key').some(({ id }) => id === 'attest'));
  assert.deepEqual(search(read1.resources, 'zzzz'), []);
  assert.deepEqual(search(read1.resources, '  '), []);
});

test('a curl line quotes what it is given and never holds a credential', () => {
  const line = curl({ method: 'POST', url: "http://h/it's", headers: [['X', '$(id)']], body: '{"a":"\'"}',
    credential: true });
  assert.equal(line,
    `curl -sS -X POST 'http://h/it'\\''s' \\\n  -H "Authorization: Bearer $KEY" \\\n  -H 'X: $(id)' \\\n  ` +
      `--data-binary '{"a":"'\\''"}'`);
});

test('addresses and bodies are escaped', () => {
  const text = (value) => ({ node: parse(JSON.stringify(value)), source: JSON.stringify(value) });
  const op = { path: '/v1/a/{x}/{y}',
    parameters: [{ name: 'x', in: 'path' }, { name: 'y', in: 'path', example: text('0/1') }, { name: 'q', in: 'query' },
      { name: 'r', in: 'query' }] };
  assert.equal(address(op, { x: 'a/b?', y: '2/3', q: 'ü&' }), '/v1/a/a%2Fb%3F/2/3?q=%C3%BC%26');
  assert.equal(address(op, {}), '/v1/a/{x}/{y}');
  assert.equal(bodyOf('application/x-www-form-urlencoded', text({ a: 'b c', d: '&' })), 'a=b%20c&d=%26');
});
