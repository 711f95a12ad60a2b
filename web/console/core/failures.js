// What failed of the chain of the company that is signed in. It lasts until a person dismisses it.
import { dropFinding, findingOf, keepFinding } from './findings.js';
import { session } from './session.js';

const companyNow = () => session.get().company?.companyId ?? '';

/** The failure with the lowest index so far, a finding of findings.js, or null. */
export const failureNow = () => findingOf('failure', companyNow());

/** Keeps that a record, or "the root", fails; by is here, or server for its word. None is ever taken back: what failed was shown by the server. */
export function fail(failedAt, reason, by = 'here') {
  const companyId = companyNow();
  if (companyId) keepFinding({ kind: 'failure', companyId, failedAt: String(failedAt), reason, by });
}

/** Forgets what failed: for who knows why. What still fails is found again. */
export const dismissFailure = () => dropFinding('failure', companyNow());
