// @ts-check
// What the first page says of the last day: who acted when, what was changed, and what needs a
// look. All of it is the server's word.
import { call } from './api.js';
import { HOURS, lastHours, needsALook } from './attention.js';
import { newestChanges, newestOf } from './control_log.js';
import { readCredentials } from './credentials.js';
import { readFederations } from './federations.js';
import { countsByAgent, histogramOf, searchOf } from './search.js';
import { readService } from './service_state.js';
import { sessionPage, sessionsAsked } from './sessions.js';
import { ahead } from './times.js';
import { readWebhooks } from './webhooks.js';

const CHANGES = 5;
const DISOBEYED = 100; // calls that are counted
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
    activity, denied, failed, disobeyed, changes, sessions, credentials, webhooks, federations, service,
  ] = await Promise.all([
    countsByAgent(since, until, HOURS),
    countOf('tool.denied'),
    countOf('tool.failed'),
    newestOf('call.disobeyed', since, DISOBEYED),
    newestChanges(CHANGES),
    call(sessionPage, 'GET', `/v1/sessions?limit=${SESSIONS}`, { asked: sessionsAsked({}) }),
    allowed(readCredentials()),
    allowed(readWebhooks()),
    allowed(readFederations()),
    readService(),
  ]);
  return {
    activity,
    changes,
    sessions: sessions.sessions.slice(0, SHOWN),
    attention: needsALook(
      {
        since, denied, failed, disobeyed: disobeyed.length, sessions: sessions.sessions, credentials, webhooks,
        federations, service,
      },
      now,
    ),
    limited: !credentials,
  };
}
