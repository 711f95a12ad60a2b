// @ts-check
// Searches over the records: what the URL asks for, and what the server finds. A search is the
// server's word. What it finds is checked here record by record; that it left nothing out is shown
// by verifying the whole log alone.
import { FormError, having, integer, json, list, oneOf, read, string, timestamp } from '../lib/form.js';
import { hasMembers, membersOf } from '../lib/members.js';
import { recordForm } from '../lib/record.js';
import { call, lines } from './api.js';
import { NOTHING, mustFit } from './asked.js';
import { PAGE_SAYS, mustGoOn } from './search_pages.js';
import { dateOf } from './times.js';
import { table } from '../lib/table.js';

/**
 * Periods that end now, in seconds, by the name that a URL has for them.
 * @type {Record<string, number>}
 */
export const LAST = table({ '15m': 900, '1h': 3600, '24h': 86400, '7d': 604800, '30d': 2592000 });

/**
 * @type {('agent' | 'action' | 'delegatedBy' | 'decision' | 'policy' | 'since' | 'until' | 'q' |
 *   'payload' | 'hash')[]}
 */
const ASKED = ['agent', 'action', 'delegatedBy', 'decision', 'policy', 'since', 'until', 'q', 'payload', 'hash'];

/**
 * {agent, action, delegatedBy, decision, policy, since, until, q, payload, hash, order, failures}
 * of a URL's query; what is not asked for is ''. now: milliseconds.
 * @param {Query} query
 * @param {number} now
 * @returns {Search}
 */
export function searchOf(query, now) {
  const {
    agent = '', action = '', delegatedBy = '', decision = '', policy = '', since = '', until = '', q = '', payload = '',
    hash = '',
  } = query;
  const search = { agent, action, delegatedBy, decision, policy, since, until, q, payload, hash };
  if (query.last && Object.hasOwn(LAST, query.last))
    Object.assign(search, { since: new Date(now - LAST[query.last] * 1000).toISOString(), until: '' });
  return { ...search, order: query.order === 'oldest' ? 'oldest' : 'newest', failures: query.failures === '1' };
}

/**
 * Whether the server reads every record for a search, as none of its summaries has what is asked
 * for.
 * @param {{q: string, payload: string, hash: string}} search
 */
export const readsAll = ({ q, payload, hash }) => Boolean(q || payload || hash);

/**
 * Whether what a search asks for is in payloads: then it does not find a record whose payload was
 * pruned.
 * @param {Pick<Search, 'agent' | 'action' | 'decision' | 'policy' | 'q' | 'payload'>} search
 */
export const needsPayload = ({ agent, action, decision, policy, q, payload }) =>
  Boolean(agent || action || decision || policy || q || payload);

/**
 * Whether a search asks for less than all records.
 * @param {Search} search
 */
export const narrows = (search) => ASKED.some((name) => search[name]);

/**
 * A time as people type it, in the shown zone or, with a Z, in UTC, in the form of the API; null
 * where it is none.
 * @param {string} typed
 */
export function timeOf(typed) {
  const m = /^([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,3}))?)?)? ?(Z)?$/.exec(
    typed.trim(),
  );
  if (!m) return null;
  const exact = `${m[1]}T${m[2] ?? '00:00'}:${m[3] ?? '00'}.${(m[4] ?? '').padEnd(3, '0')}`;
  if (!m[5]) return dateOf(exact)?.toISOString() ?? null;
  const date = new Date(`${exact}Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString() === `${exact}Z` ? `${exact}Z` : null;
}

/** @param {string} text */
const folded = (text) => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());

/**
 * Whether a text is in a string or name of a JSON value, as these read.
 * @param {JSONNode} node
 * @param {string} text
 * @returns {boolean}
 */
function holds(node, text) {
  if (node.type === 'string') return folded(node.value).includes(text);
  if (node.type === 'array') return node.items.some((item) => holds(item, text));
  return node.type === 'object' && node.members.some((m) => folded(m.key).includes(text) || holds(m.value, text));
}

/** The condition that was read last, for it is that of many records. */
const last = { text: '', parts: /** @type {MemberPart[] | null} */ ([]) };

/**
 * Whether a payload has the members of a condition; none has where the condition is malformed.
 * @param {JSONNode} node
 * @param {string} text
 */
function fits(node, text) {
  if (last.text !== text) {
    try {
      Object.assign(last, { text, parts: membersOf(text) });
    } catch {
      Object.assign(last, { text, parts: null });
    }
  }
  return last.parts !== null && hasMembers(node, last.parts);
}

/**
 * Whether a record is one that a search asks for.
 * @param {LogRecord} record
 * @param {Search} search
 */
export function matches(
  record,
  { agent, action, delegatedBy, decision, policy, since, until, q, payload, hash },
) {
  const { delegation, decision: made } = record;
  return (
    (!agent || record.agentId === agent) &&
    (!decision || made?.verdict === decision) &&
    (!policy || Boolean(made?.by.some((id) => id.split('#')[0] === policy))) &&
    (!action ||
      (action.endsWith('*') ? record.actionType.startsWith(action.slice(0, -1)) : record.actionType === action)) &&
    (!delegatedBy ||
      Boolean(
        delegation &&
          (delegatedBy === '*' ||
            delegation.subject === delegatedBy ||
            delegation.chain.slice(0, -1).includes(delegatedBy)),
      )) &&
    (!since || record.timestamp >= since) &&
    (!until || record.timestamp < until) &&
    (!hash || record.hash === hash.toLowerCase()) &&
    (!q || holds(record.inner, folded(q))) &&
    (!payload || fits(record.inner, payload))
  );
}

/**
 * The path that asks the server for a search, or for its histogram.
 * @param {Search} search
 * @param {Record<string, string | number | undefined>} [more]
 * @param {string} [what]
 */
export function pathOf(search, more = {}, what = '/v1/records') {
  const asked = ASKED.filter((name) => search[name]).map((name) => [name, search[name]]);
  const rest = Object.entries(more).filter(([, value]) => value).map(([name, value]) => [name, String(value)]);
  return `${what}?${new URLSearchParams([...asked, ...rest])}`;
}

const pageForm = having({ records: list(json, 1000), ...PAGE_SAYS }, { next: string, pruned: integer });
const progressForm = having({ read: integer, at: integer, size: integer });
const endForm = having({ read: integer, found: integer }, { next: string, pruned: integer });
const histogram = {
  since: timestamp,
  until: timestamp,
  total: integer,
  size: integer,
  buckets: list(having({ since: timestamp, count: integer }), 200),
};
const histogramForm = having(histogram, {
  verdicts: list(having({ verdict: oneOf('allow', 'deny', 'ask'), total: integer, counts: list(integer, 200) }), 3),
});

/**
 * A page of what a search finds after another one (null for the first): {records: [{node, source}],
 * size, read, next, pruned}, next '' at the end. pruned: how many records could not be searched,
 * because their payloads were pruned, as it says. proven: how many records the log has at least.
 * @param {Search} search
 * @param {{read: SearchPage['read'], size: number, next: string} | null} before
 * @param {number} limit
 * @param {CallOptions & {proven: number}} options
 */
export async function pageOf(search, before, limit, { proven, ...options }) {
  const page = {
    next: '',
    pruned: 0,
    ...(await call(pageForm, 'GET', pathOf(search, { order: search.order, cursor: before?.next, limit }), {
      ...options,
      asked: NOTHING,
    })),
  };
  mustGoOn(page, before, { ...search, proven });
  return page;
}

const UNCOUNTED = { q: '', payload: '', hash: '' };

/**
 * How many records match in each part of a period, and of them how many have a decision of each
 * verdict, unless one alone is asked for; neither text, members nor hash are asked for.
 * @param {Search} search
 * @param {number} buckets
 * @param {CallOptions} [options]
 */
export const histogramOf = (search, buckets, options) =>
  call(histogramForm, 'GET', pathOf(
    { ...search, ...UNCOUNTED }, { buckets, by: search.decision ? '' : 'decision' }, '/v1/records/histogram',
  ), {
    ...options,
    asked({ since, until, total, buckets: given, verdicts = [] }) {
      mustFit(
        verdicts.every(({ counts, total: sum }) => counts.length === given.length
          && counts.reduce((a, b) => a + b, 0) === sum)
          && given.every(({ count }, i) => verdicts.reduce((sum, { counts }) => sum + counts[i], 0) <= count),
        'it counts more decisions than records',
      );
      mustFit(
        (!search.since || since === search.since) && (!search.until || until === search.until),
        `it counts the records of another period, from ${since} to ${until}`,
      );
      mustFit(
        given.length <= buckets && total === given.reduce((sum, { count }) => sum + count, 0),
        'its parts do not add up to its total',
      );
    },
  });

const byAgentForm = having({
  ...histogram,
  agents: integer,
  topAgents: list(having({ agentId: string, total: integer, counts: list(integer, 200) }), 20),
});

/**
 * How many records there are in each part of a period, in all and of the agents with the most of
 * them.
 * @param {string} since
 * @param {string} until
 * @param {number} buckets
 */
export const countsByAgent = (since, until, buckets) =>
  call(byAgentForm, 'GET', pathOf(searchOf({ since, until }, 0), { buckets, by: 'agent' }, '/v1/records/histogram'), {
    asked(said) {
      mustFit(said.since === since && said.until === until, 'it counts the records of another period');
      mustFit(
        said.topAgents.every(({ counts }) => counts.length === said.buckets.length),
        'it does not count the records of each agent in each part of the period',
      );
      const room = said.buckets.map(({ count }) => count);
      let total = said.total - room.reduce((sum, n) => sum + n, 0);
      for (const { counts } of said.topAgents) counts.forEach((n, i) => { room[i] -= n; });
      if (said.topAgents.some(({ total: sum, counts }) => counts.reduce((a, b) => a + b, 0) !== sum)) total = NaN;
      mustFit(total === 0 && room.every((n) => n >= 0), 'its parts do not add up to its totals');
    },
  });

const actionsForm = having({
  ...histogram,
  actions: integer,
  topActions: list(having({ actionType: string, total: integer }), 50),
});

/** @param {'agent' | 'action'} by */
const most = (by) => `/v1/records/histogram?by=${by}&buckets=1`;

/**
 * The agents with the most records, at most 20.
 * @param {CallOptions} options
 */
export const agentsWithMost = async (options) =>
  (await call(byAgentForm, 'GET', most('agent'), { ...options, asked: NOTHING }))
    .topAgents.map(({ agentId }) => agentId);

/**
 * The actions with the most records, at most 50.
 * @param {CallOptions} options
 */
export const actionsWithMost = async (options) =>
  (await call(actionsForm, 'GET', most('action'), { ...options, asked: NOTHING }))
    .topActions.map(({ actionType }) => actionType);

/**
 * What a search finds as it is found: {text}, {progress: {read, at, size}} and at last {end: {read,
 * found, next, pruned}}.
 * @param {Search} search
 * @param {string} cursor
 * @param {number} limit
 * @param {CallOptions} [options]
 * @returns {AsyncGenerator<Streamed>}
 */
export async function* streamOf(search, cursor, limit, options) {
  let event = '';
  let data = [];
  let given = 0;
  for await (const line of lines(
    pathOf(search, { order: search.order, cursor, limit }),
    'text/event-stream',
    options,
  )) {
    const [, name, value] = /^(event|data): ?(.*)$/s.exec(line) ?? [];
    if (name === 'event') event = value;
    else if (name === 'data') data.push(value);
    if (line || !data.length) continue;
    const text = data.join('\n');
    data = [];
    if (event === 'record') {
      given++;
      yield { text };
    } else if (event === 'progress') yield { progress: read(progressForm, text, 'progress') };
    else if (event === 'end') {
      const end = { next: '', pruned: 0, ...read(endForm, text, 'end') };
      mustFit(end.found === given, `it found ${end.found} records, and gave ${given}`);
      yield { end };
      return;
    }
  }
  throw new FormError('The server ended the search early.');
}

/**
 * The record of an answer, which must be one that was asked for. The text alone may be read
 * otherwise than here.
 * @param {JSONText} text
 * @param {Search} search
 */
export function foundRecord({ node, source }, search) {
  const record = recordForm(node, source, 'it');
  if (!matches(record, { ...search, q: '' }))
    throw new FormError(`record ${record.index} is not one that was asked for`);
  return record;
}
