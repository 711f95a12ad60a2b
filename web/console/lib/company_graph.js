// @ts-check
// Who acted for whom in a company: the steps of the delegation chains of records, each step once,
// with what the records of it say and how they were checked.

const LISTED = 50; // records that a step names

/** @type {Tone[]} */
const DOUBTS = ['bad', '', 'warn']; // the worst first

/**
 * Of two verdicts the worse one.
 * @param {Tone} a
 * @param {Tone} b
 * @returns {Tone}
 */
function worse(a, b) {
  return DOUBTS.find((tone) => tone === a || tone === b) ?? a;
}

/**
 * The graph of entries {record, tone}, the newest record first: nodes {name, count}, and edges,
 * those used last first. The tone of an edge is the worst of its records. alone: how many records
 * have a token for no one else.
 * @param {DelegatedEntry[]} entries
 */
export function companyGraph(entries) {
  /** @type {Map<string, GraphNode>} */
  const nodes = new Map();
  /** @type {Map<string, CompanyEdge & {known: Set<string>}>} */
  const edges = new Map();
  let alone = 0;
  for (const { record: { index, timestamp, delegation }, tone } of entries) {
    if (!delegation) continue;
    const { chain, tokenId } = delegation;
    if (chain.length === 1) alone++;
    else for (const name of new Set(chain)) nodes.set(name, { name, count: (nodes.get(name)?.count ?? 0) + 1 });
    /** @type {Map<string, [string, string]>} */
    const steps = new Map(); // a chain may go in circles
    for (let i = 1; i < chain.length; i++)
      steps.set(JSON.stringify([chain[i - 1], chain[i]]), [chain[i - 1], chain[i]]);
    for (const [id, [from, to]] of steps) {
      const edge = edges.get(id)
        ?? { from, to, count: 0, index, tokens: 0, since: timestamp, last: timestamp, tone, entries: [],
          known: new Set() };
      edge.count++;
      edge.since = timestamp;
      edge.tone = worse(edge.tone, tone);
      edge.tokens = edge.known.add(tokenId).size;
      if (edge.entries.length < LISTED) edge.entries.push({ index, timestamp, tone });
      edges.set(id, edge);
    }
  }
  return {
    nodes: [...nodes.values()],
    edges: [...edges.values()].map(({ known: _, ...edge }) => edge)
      .sort((a, b) => b.index - a.index || b.count - a.count),
    alone,
  };
}
