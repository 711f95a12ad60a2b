// The picture of who acted for whom, and the differences of two JSON values.
import assert from 'node:assert/strict';
import test from 'node:test';
import { busiest, graphOf, placed } from '../console/lib/delegations.js';
import { parse } from '../console/lib/json.js';
import { differences } from '../console/lib/json_diff.js';

const records = (...chains) => chains.map((chain, i) => ({ index: chains.length - i, delegation: { chain } }));

test('edges are the steps of delegation chains, counted over the records', () => {
  const { nodes, edges, alone } = graphOf(records(['acme', 'a', 'b'], ['acme', 'a'], ['a', 'b'], ['b'],
    ['a', 'b', 'a']));
  assert.deepEqual(edges.map(({ from, to, count, index }) => [from, to, count, index]),
    [['a', 'b', 3, 5], ['acme', 'a', 2, 5], ['b', 'a', 1, 1]]);
  assert.deepEqual(nodes.map(({ name, count }) => [name, count]), [['acme', 2], ['a', 4], ['b', 4]]);
  assert.deepEqual(alone, [{ name: 'b', count: 1 }]);
});

test('a picture has the busiest principals, the one that it is about among them, and says how many are left', () => {
  const graph = graphOf(records(...Array.from({ length: 40 }, (_, i) => ['acme', `agent-${i}`]), ['acme', 'agent-1']));
  const part = busiest(graph, 10, 'agent-39');
  assert.equal(part.nodes.length, 10);
  assert.equal(part.left, 31);
  assert.ok(['acme', 'agent-1', 'agent-39'].every((name) => part.nodes.some((node) => node.name === name)));
  assert.equal(part.edges.length, 9);
});

// Whatever the chains: boxes stand apart within the picture, and each edge has its line, circles
// and loops too.
test('boxes stand apart within the picture at any width', () => {
  const graphs = [
    graphOf(records(['acme', 'a', 'b'], ['b', 'a'], ['a', 'a'], ['x', 'y'])),
    graphOf(records(...Array.from({ length: 20 }, (_, i) => ['acme', `planner-${i % 3}`, `worker-${i}`]))),
    graphOf(records(Array.from({ length: 10 }, (_, i) => `link-${i}`))),
    graphOf(records(['only', 'two'])),
  ];
  for (const graph of graphs) {
    for (const width of [180, 280, 340, 600, 900, 1500]) {
      const { boxes, lines, height } = placed(graph, width);
      assert.equal(boxes.length, graph.nodes.length);
      assert.deepEqual(lines.map(({ from, to }) => [from, to]), graph.edges.map(({ from, to }) => [from, to]));
      for (const [i, a] of boxes.entries()) {
        assert.ok(a.x >= -0.01 && a.y >= -0.01 && a.x + a.width <= width + 0.01 && a.y + a.height <= height + 0.01,
          `${a.name} is outside at ${width}`);
        for (const b of boxes.slice(i + 1)) {
          assert.ok(a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y,
            `${a.name} covers ${b.name} at ${width}`);
        }
      }
      assert.ok(lines.every(({ d, x, y }) => !/NaN|undefined/.test(`${d}${x}${y}`)));
    }
  }
});

test('who acts for somebody stands after them, unless that closes a circle', () => {
  const { boxes } = placed(graphOf(records(['a', 'b', 'c'], ['c', 'd'], ['d', 'b'])), 1200);
  const at = (name) => boxes.find((box) => box.name === name).x;
  assert.ok(at('a') < at('b') && at('c') < at('d'));
});

test('the difference of two values is told member by member, and spelling is none', () => {
  const value = (text) => (text === null ? null : { node: parse(text), source: text });
  const told = (before, after) => differences(value(before), value(after)).map((d) => [d.pointer, d.before, d.after]);
  assert.deepEqual(told('{"a":1,"b":[1,2]}', '{"b":[1,2.0],"a":1e0}'), []);
  assert.deepEqual(told('{"a":{"x":1,"y":2},"b/c":1}', '{"a":{"x":1,"y":3},"~":null}'),
    [['/a/y', '2', '3'], ['/b~1c', '1', undefined], ['/~0', undefined, 'null']]);
  assert.deepEqual(told(null, '{"a":{"x":1}}'), [['/a', undefined, '{"x":1}']]);
  assert.deepEqual(told('{"a":[1]}', '{"a":{"0":1}}'), [['/a', '[1]', '{"0":1}']]);
  assert.deepEqual(told('{}', null), [['', '{}', undefined]]);
});
