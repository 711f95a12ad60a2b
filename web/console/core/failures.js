// @ts-check
// What failed of the logs of the company that is signed in. It lasts until a person acknowledges
// it.
import { findingOf, addFinding } from './findings.js';
import { session } from './session.js';

const companyNow = () => session.get().company?.companyId ?? '';

/**
 * The failure of the log of actions with the lowest index so far, a finding of findings.js, or
 * null.
 */
export const failureNow = () => findingOf('failure', companyNow(), 'actions');

/**
 * Keeps that a record, or "the root", of a log fails; by is here, or server for its word. None is
 * ever taken back: what failed was shown by the server.
 * @param {number | string} failedAt
 * @param {string} reason
 * @param {'here' | 'server'} [by]
 * @param {LogName} [log]
 */
export function fail(failedAt, reason, by = 'here', log = 'actions') {
  const companyId = companyNow();
  if (companyId) addFinding({ kind: 'failure', companyId, log, failedAt: String(failedAt), reason, by });
}
