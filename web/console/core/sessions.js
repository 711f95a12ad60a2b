// @ts-check
// Sessions: the runs of agents, as the service lists them, their records and their files. The list
// is the server's word; the records are checked where they are shown.
import { completenessOf } from '../lib/calls.js';
import {
  FormError,
  boolean,
  having,
  integer,
  json,
  list,
  oneOf,
  onlyTrue,
  string,
  stringThat,
  timestamp,
  tuple,
} from '../lib/form.js';
import { isThumbprint } from '../lib/statement.js';
import { call, callStream } from './api.js';
import { needingPayload } from './archives.js';
import { eachNames, mustFit } from './asked.js';
import { table } from '../lib/table.js';

/** @type {['statement', 'hook', 'mcp', 'run', 'telemetry']} */
export const KINDS = ['statement', 'hook', 'mcp', 'run', 'telemetry'];

/** @type {Record<string, string>} */
export const KIND_NAMES = table({
  statement: 'signed by the agent',
  hook: 'hooks',
  mcp: 'MCP',
  run: 'attestd run',
  telemetry: 'telemetry',
});

const COMPLETENESS = ['sealed', 'open', 'gap', 'broken', 'unproven', 'pruned'];

const disobeyedCall = having({ refused: integer, done: integer, tool: string });

const pair = tuple(integer, integer);

/**
 * The steps from the first to the last, both included.
 * @type {Form<[number, number]>}
 */
const range = (node, source, name) => {
  const [first, last] = pair(node, source, name);
  if (first > last) throw new FormError(`${name} ends before it begins`);
  return [first, last];
};

const listed = having({
  agentId: string,
  kind: oneOf(...KINDS),
  source: string,
  kid: stringThat((s) => s === '' || isThumbprint(s), 'the thumbprint of a key, or empty'),
  sid: string,
  first: integer,
  last: integer,
  firstAt: timestamp,
  lastAt: timestamp,
  records: integer,
  state: oneOf(...COMPLETENESS, 'disobeyed'),
  ended: boolean,
  missing: list(range, 100),
}, { completeness: oneOf(...COMPLETENESS), disobeyed: list(disobeyedCall, 100), pruned: onlyTrue });

export const sessionPage = having({ sessions: list(listed, 100) }, { next: string });

/**
 * What a page of sessions must hold: of those that were asked for, and none without statements that
 * is said to be proven.
 * @param {Query} query
 */
export const sessionsAsked = ({ agentId, sid, kind, from = '', to = '' }) =>
  /** @param {{sessions: ListedSession[]}} answer */
  (answer) => {
    eachNames('sessions', { agentId, sid, kind })(answer);
    for (const one of answer.sessions) {
      mustFit((one.kind === 'statement') === (one.kid !== ''),
        `a session of ${one.kind} has the key ${one.kid || '–'}`);
      mustFit((one.kind === 'statement') === (completenessOf(one) !== 'unproven')
        && (one.state === 'disobeyed') === Boolean(one.disobeyed?.length),
        `it calls a session of ${one.kind} ${one.state}`);
      mustFit(one.firstAt <= one.lastAt || one.kind === 'statement', 'a session ends before it begins');
      mustFit(!from || one.kind === 'statement' || one.lastAt >= from, 'a session ended before the time asked for');
      mustFit(!to || one.kind === 'statement' || one.firstAt < to, 'a session began after the time asked for');
    }
  };

/**
 * @param {SessionName} session
 * @param {string} [what]
 * @param {Record<string, string>} [more]
 */
function pathOf({ agentId, sid, kind, kid }, what = '', more = {}) {
  const query = new URLSearchParams({ kind, ...(kid && { kid }), ...more });
  return `/v1/sessions/${encodeURIComponent(agentId)}/${encodeURIComponent(sid)}${what}?${query}`;
}

/**
 * What the server says of a session; kind and kid may be '' where only one has the name.
 * @param {SessionQuery} name
 * @param {CallOptions} [options]
 */
export async function findSession({ agentId, sid, kind, kid }, options) {
  const query = { agentId, sid, ...(kind && { kind }) };
  const { sessions } = await call(sessionPage, 'GET', `/v1/sessions?${new URLSearchParams(query)}`, {
    ...options,
    asked: sessionsAsked(query),
  });
  const found = sessions.filter((one) => !kid || one.kid === kid);
  if (!found.length) throw new Error('The server has no such session.');
  return found.find((one) => one.kind === 'statement') ?? found[0];
}

const recordPage = having({ records: list(json, 1000) }, { next: integer });

/**
 * A page of the records of a session from an index on.
 * @param {SessionName} session
 * @param {number} from
 * @param {CallOptions} [options]
 */
export const recordsOf = (session, from, options) =>
  call(recordPage, 'GET', pathOf(session, '/records', { from: String(from) }), {
    ...options,
    asked: ({ next, records }) =>
      mustFit(next === undefined || (next > from && records.length > 0), `it goes on at record ${next}`),
  });

/**
 * The file of a session, as it streams in.
 * @param {SessionName} session
 */
export const sessionFile = async (session) =>
  new Response(await needingPayload(null, () => callStream(pathOf(session)))).blob();
