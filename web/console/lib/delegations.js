// @ts-check
// Who acted for whom: a graph of principals, drawn from the delegation chains of records, and where
// it stands in a picture.

/**
 * The graph of records that hold, the newest first: nodes {name, count}, and edges {from, to,
 * count, index}: in count records `to` acted for `from`, and index is the newest of them. alone:
 * {name, count} of those who acted under a token of their own, for no one else.
 * @param {{index: number, delegation?: {chain: string[]}}[]} records
 * @returns {Graph & {alone: GraphNode[]}}
 */
export function graphOf(records) {
  /** @type {Map<string, GraphNode>} */
  const nodes = new Map();
  /** @type {Map<string, GraphEdge>} */
  const edges = new Map();
  /** @type {Map<string, number>} */
  const alone = new Map();
  for (const { index, delegation: { chain } = { chain: [] } } of records) {
    if (chain.length === 1) alone.set(chain[0], (alone.get(chain[0]) ?? 0) + 1);
    chain.forEach((name, i) => {
      if (chain.indexOf(name) === i) nodes.set(name, { name, count: (nodes.get(name)?.count ?? 0) + 1 });
      if (i === 0) return;
      const id = JSON.stringify([chain[i - 1], name]);
      const edge = edges.get(id) ?? { from: chain[i - 1], to: name, count: 0, index };
      edges.set(id, { ...edge, count: edge.count + 1 });
    });
  }
  return {
    nodes: [...nodes.values()],
    edges: [...edges.values()].sort((a, b) => b.count - a.count || b.index - a.index),
    alone: [...alone].map(([name, count]) => ({ name, count })),
  };
}

/**
 * The part of a graph with its `most` busiest nodes, keep among them: {nodes, edges, left}; left:
 * how many nodes are not in it.
 * @param {Graph} graph
 * @param {number} most
 * @param {string} always
 */
export function busiest({ nodes, edges }, most, always) {
  const chosen = nodes.toSorted((a, b) =>
    Number(b.name === always) - Number(a.name === always) || b.count - a.count).slice(0,
    most);
  const names = new Set(chosen.map(({ name }) => name));
  return {
    nodes: chosen,
    edges: edges.filter(({ from, to }) => names.has(from) && names.has(to)),
    left: nodes.length - chosen.length,
  };
}

/**
 * How far each node is from those who act for no one: one more than the farthest that it acts for.
 * An edge that closes a circle does not count.
 * @param {Graph} graph
 */
function layersOf({ nodes, edges }) {
  /** @type {Map<string, number>} */
  const depths = new Map();
  /**
   * @param {string} name
   * @param {string[]} below
   * @returns {number}
   */
  const depth = (name, below) => {
    const known = depths.get(name);
    if (known !== undefined) return known;
    const above = edges.filter(({ from, to }) => to === name && from !== name && !below.includes(from));
    const found = Math.max(0, ...above.map(({ from }) => depth(from, [...below, name]) + 1));
    depths.set(name, found);
    return found;
  };
  /** @type {GraphNode[][]} */
  const layers = [];
  for (const node of nodes.toSorted((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1)))
    (layers[depth(node.name, [node.name])] ??= []).push(node);
  return layers.filter(Boolean);
}

const BOX = { width: 200, height: 46, across: 104, down: 92 }; // and the least width of a box in either direction
const GAP = { x: 64, most: 150, y: 14, narrow: 12, tall: 50 };

/**
 * Layers side by side, the first at the left; nothing where they do not fit.
 * @param {GraphNode[][]} layers
 * @param {number} width
 */
function across(layers, width) {
  const box = Math.min(BOX.width, (width - (layers.length - 1) * GAP.x) / layers.length);
  if (box < BOX.across) return null;
  const gap = Math.min(GAP.most, layers.length > 1 ? (width - layers.length * box) / (layers.length - 1) : 0);
  const height = Math.max(...layers.map((layer) => layer.length)) * (BOX.height + GAP.y) - GAP.y;
  const left = (width - layers.length * (box + gap) + gap) / 2;
  const boxes = layers.flatMap((layer, column) => {
    const top = (height - layer.length * (BOX.height + GAP.y) + GAP.y) / 2;
    return layer.map((node, i) => ({
      ...node,
      x: left + column * (box + gap),
      y: top + i * (BOX.height + GAP.y),
      width: box,
      height: BOX.height,
    }));
  });
  return { boxes, height, down: false };
}

/**
 * Layers one above the other, each in as many lines as it needs.
 * @param {GraphNode[][]} layers
 * @param {number} width
 */
function downwards(layers, width) {
  /** @type {GraphBox[]} */
  const boxes = [];
  let y = 0;
  for (const layer of layers) {
    const fit = Math.max(1, Math.min(layer.length, Math.floor((width + GAP.narrow) / (BOX.down + GAP.narrow))));
    const box = Math.min(BOX.width, (width - (fit - 1) * GAP.narrow) / fit);
    layer.forEach((node, i) => {
      const line = Math.floor(i / fit);
      const inLine = Math.min(fit, layer.length - line * fit);
      const left = (width - inLine * (box + GAP.narrow) + GAP.narrow) / 2;
      boxes.push({
        ...node,
        x: left + (i % fit) * (box + GAP.narrow),
        y: y + line * (BOX.height + GAP.tall),
        width: box,
        height: BOX.height,
      });
    });
    y += Math.ceil(layer.length / fit) * (BOX.height + GAP.tall);
  }
  return { boxes, height: y - GAP.tall, down: true };
}

/**
 * The line of an edge between two boxes, and where its number is, near its end. shift keeps apart
 * the lines that end at one box, and back their numbers.
 * @param {GraphBox} a
 * @param {GraphBox} b
 * @param {boolean} down
 * @param {number} shift
 * @param {number} back
 */
function lineOf(a, b, down, shift, back) {
  if (a === b) { // a principal that acts for itself
    const [x, y] = [a.x + a.width - 26, a.y];
    return { d: `M${x} ${y}c-4 -22 24 -22 18 0`, x: x + 9, y: y - 17 };
  }
  const [x1, y1] = down ? [a.x + a.width / 2, a.y + a.height] : [a.x + a.width, a.y + a.height / 2];
  const [x2, y2] = down ? [b.x + b.width / 2 + shift, b.y] : [b.x, b.y + b.height / 2 + shift];
  const bend = Math.max(24, Math.abs(down ? y2 - y1 : x2 - x1) / 2);
  const [c1, c2] = down ? [`${x1} ${y1 + bend}`, `${x2} ${y2 - bend}`] : [`${x1 + bend} ${y1}`, `${x2 - bend} ${y2}`];
  return { d: `M${x1} ${y1}C${c1} ${c2} ${x2} ${y2}`, x: down ? x2 : x2 - 22 - back, y: down ? y2 - 19 - back : y2 };
}

/**
 * A graph in a picture of a width: boxes of its nodes, {x, y, width, height}, lines of its edges,
 * {d, x, y}, and its height.
 * @param {Graph} graph
 * @param {number} width
 */
export function placed(graph, width) {
  const layers = layersOf(graph);
  const { boxes, height, down } = across(layers, width) ?? downwards(layers, width);
  const boxOf = new Map(boxes.map((box) => [box.name, box]));
  /** @param {string} name */
  const at = (name) => /** @type {GraphBox} */ (boxOf.get(name)); // each edge has both of its nodes
  const lines = graph.edges.map((edge) => {
    const ending = graph.edges
      .filter(({ to }) => to === edge.to)
      .map(({ from }) => at(from))
      .sort((a, b) => (down ? a.x - b.x : a.y - b.y));
    const box = at(edge.to);
    const [most, enough] = down ? [32, 24] : [15, 13]; // of the room of a number
    const room = Math.min(most, ((down ? box.width : box.height) - 12) / ending.length);
    const place = ending.indexOf(at(edge.from));
    return {
      ...edge,
      ...lineOf(
        at(edge.from),
        box,
        down,
        (place - (ending.length - 1) / 2) * room,
        room < enough && place % 2 ? (down ? 14 : 24) : 0,
      ),
    };
  });
  return { boxes, lines, height };
}
