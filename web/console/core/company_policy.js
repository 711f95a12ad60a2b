// @ts-check
// The audiences for which the company exchanges tokens: as the control log names them, and their
// change.
import { having, list, oneOf, string } from '../lib/form.js';
import { call } from './api.js';
import { mustFit } from './asked.js';
import { allChanges } from './control_log.js';

export const MOST_AUDIENCES = 64;

const audiences = list(string, MOST_AUDIENCES);
const changed = having({ subject: string, exchangeAudiences: audiences });

/** What the newest control record about them names, which is checked here; none without one. */
export async function readExchangeAudiences() {
  const found = await allChanges({ action: 'company.policy-changed', q: 'exchangeAudiences' });
  const newest = found.find(({ subject }) => subject === 'company-policy');
  if (!newest) return [];
  const { inner, source, index } = newest.record;
  return changed(inner, source, `control record ${index}`).exchangeAudiences;
}

/**
 * Names all audiences, in place of those before.
 * @param {string[]} named
 */
export const setExchangeAudiences = (named) =>
  call(having({ attest: oneOf('any', 'key'), exchangeAudiences: audiences }), 'PUT', '/v1/company/policy', {
    asked: ({ exchangeAudiences: given }) =>
      mustFit(given.length === named.length && named.every((name) => given.includes(name)), 'it names other audiences'),
    body: { exchangeAudiences: named },
  });
