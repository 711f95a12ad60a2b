// @ts-check
// The calls of the last day that were denied or failed, each with what was asked. Their records are
// checked here; that the server named all of them, only a report shows.
import { callOf } from '../lib/calls.js';
import { newest } from './agent_records.js';
import { callWords } from './call_words.js';
import { sessionOf } from './session_calls.js';

const SHOWN = 5; // of each kind, with what was asked
const BEFORE = 3_600_000; // ms in which a call was asked for before it came out

/**
 * What was asked of a call, by the ID that its outcome names; null where no record has it.
 * @param {LogRecord} outcome
 */
async function requestOf(outcome) {
  const { agentId, timestamp, index } = outcome;
  const call = callOf(outcome);
  if (!call) return null;
  const at = Date.parse(timestamp);
  const { found } = await newest({
    agent: agentId, action: 'tool.requested', q: call.id,
    since: new Date(at - BEFORE).toISOString(), until: new Date(at + 1).toISOString(),
  }, 1);
  const [one] = found;
  return one && callOf(one.record)?.key === call.key && one.record.index < index ? one : null;
}

/**
 * One call that came out badly: its words, and what was found of its records.
 * @param {Awaited<ReturnType<typeof newest>>['found'][number]} outcome
 * @returns {Promise<Incident>}
 */
async function incidentOf({ record, ok, pruned }) {
  const said = callWords(record);
  const asked = said.what || record.pruned ? null : await requestOf(record);
  const words = asked ? { ...callWords(asked.record), outcome: said.outcome, why: said.why } : said;
  return {
    index: record.index, at: record.timestamp, agentId: record.agentId, words, session: sessionOf(record),
    ok: ok && (!asked || asked.ok), pruned,
  };
}

/**
 * The newest calls of a kind since a time, and at which times there were others.
 * @param {string} action
 * @param {string} since
 * @param {number} most times that are read
 */
export async function incidentsOf(action, since, most) {
  const { found } = await newest({ action, since }, most);
  return {
    shown: await Promise.all(found.slice(0, SHOWN).map(incidentOf)),
    times: found.map(({ record: { agentId, timestamp } }) => ({ agentId, at: timestamp })),
  };
}

/**
 * The newest record of each of some agents, in words, by agent.
 * @param {string[]} agents
 * @param {string} since
 */
export async function lastActions(agents, since) {
  const found = await Promise.all(agents.map(async (agent) => (await newest({ agent, since }, 1)).found[0]));
  return new Map(found.flatMap((one) => (one ? [[one.record.agentId, callWords(one.record)]] : [])));
}
