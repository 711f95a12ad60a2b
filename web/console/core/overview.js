// @ts-check
// What the first page says of the last day: which calls came out badly, who acted when, what was
// changed, and what else needs a look. What it names is the server's word; the records are checked.
import { keyStateOf } from './agent_keys_said.js';
import { call } from './api.js';
import { readApprovals } from './approvals.js';
import { HOURS, lastHours, needsALook } from './attention.js';
import { newestChanges, newestOf } from './control_log.js';
import { readCredentials } from './credentials.js';
import { readFederations } from './federations.js';
import { knownSince } from './heads.js';
import { incidentsOf, lastActions } from './incidents.js';
import { countsByAgent, histogramOf, searchOf } from './search.js';
import { signedIn } from './session.js';
import { readService } from './service_state.js';
import { sessionPage, sessionsAsked } from './sessions.js';
import { ahead } from './times.js';
import { readWebhooks } from './webhooks.js';

const CHANGES = 4;
const DISOBEYED = 100; // calls that are counted
const TICKS = 100; // denied calls that are shown at their times
const AGENTS = 6; // those with the most records
const SESSIONS = 100; // the newest ones that are looked at
const SHOWN = 5; // of them

/**
 * What somebody without the role for it cannot read is null.
 * @template T
 * @param {Promise<T>} asked
 * @returns {Promise<T | null>}
 */
const allowed = (asked) =>
  asked.catch((/** @type {TaskError} */ error) => {
    if (error.code === 'FORBIDDEN_ROLE') return null;
    throw error;
  });

/** @param {number} now */
export async function readOverview(now) {
  const { since, until } = lastHours(now, ahead(new Date(now)));
  /** @param {string} action */
  const countOf = async (action) => (await histogramOf(searchOf({ action, since, until }, now), 1)).total;
  const [
    activity, decided, denied, failed, deniedCalls, failedCalls, disobeyed, changes, sessions, credentials, webhooks,
    federations, service, waiting,
  ] = await Promise.all([
    countsByAgent(since, until, HOURS),
    histogramOf(searchOf({ since, until }, now), 1),
    countOf('tool.denied'),
    countOf('tool.failed'),
    incidentsOf('tool.denied', since, TICKS),
    incidentsOf('tool.failed', since, SHOWN),
    newestOf('call.disobeyed', since, DISOBEYED),
    newestChanges(CHANGES),
    call(sessionPage, 'GET', `/v1/sessions?limit=${SESSIONS}`, { asked: sessionsAsked({}) }),
    allowed(readCredentials()),
    allowed(readWebhooks()),
    allowed(readFederations()),
    readService(),
    readApprovals('pending'),
  ]);
  const topAgents = activity.topAgents.slice(0, AGENTS);
  const agents = topAgents.map(({ agentId }) => agentId);
  const [actions, keyStates] = await Promise.all([
    lastActions(agents, since),
    Promise.all(agents.map(async (agentId) => /** @type {const} */ ([agentId, await keyStateOf(agentId, now)]))),
  ]);
  return {
    activity: { ...activity, topAgents },
    decided: {
      deny: 0, ask: 0, ...Object.fromEntries((decided.verdicts ?? []).map(({ verdict, total }) => [verdict, total])),
    },
    denied: { total: denied, ...deniedCalls },
    failed: { total: failed, ...failedCalls },
    disobeyed,
    lastActions: actions,
    keyStates: new Map(keyStates),
    changes,
    sessions: sessions.sessions.slice(0, SHOWN),
    attention: needsALook({
      sessions: sessions.sessions, credentials, webhooks, federations, service, waiting: waiting.approvals.length,
    }, now),
    limited: !credentials,
    // newestChanges has proven that both logs have grown from what this browser saw of them
    intactSince: knownSince(signedIn().key, 'actions'),
  };
}
