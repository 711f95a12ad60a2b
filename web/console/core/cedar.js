// @ts-check
// The company's policies on what agents may do. Which are in force, and which were at a decision,
// is what control records say that are checked here; the hash of the set shows whether the server
// has left one of them out.
import { having, integer, list, nullable, oneOf, string, hash } from '../lib/form.js';
import { sha256hex } from '../lib/sha256.js';
import { call } from './api.js';
import { NOTHING, mustFit } from './asked.js';
import { allChanges } from './control_log.js';
import { proveSince } from './growth.js';
import { signedIn } from './session.js';

const changeForm = having(
  { policyId: string, revision: integer, set: hash },
  { cedar: string, description: nullable(string) },
);
const listForm = having({ policies: list(having({ policyId: string })), sha256: hash, revision: integer });
const triedForm = having({
  decided: integer,
  different: list(having({
    index: integer,
    was: nullable(oneOf('allow', 'deny', 'ask')),
    becomes: oneOf('allow', 'deny', 'ask'),
    by: list(string),
  })),
  next: nullable(integer),
});

/** All changes of the policies that the server finds, the oldest first, checked. */
export async function policyChanges() {
  await proveSince(signedIn().key); // how long the log is, by a checkpoint that the company has signed
  const found = [];
  for (const action of ['policy.put', 'policy.deleted']) found.push(...(await allChanges({ action })));
  return found.sort((a, b) => a.record.index - b.record.index);
}

/**
 * The hash of a set of policies; see HashSet of package decision.
 * @param {Map<string, {cedar: string}>} policies
 */
async function hashOf(policies) {
  const sums = await Promise.all([...policies.keys()].sort().map(async (id) =>
    `${JSON.stringify(id)}:"${await sha256hex(/** @type {{cedar: string}} */ (policies.get(id)).cedar)}"`));
  return sha256hex(`{${sums.join()}}`);
}

/**
 * The set of policies that some changes make, up to a revision: {policies, revision, set}. Throws
 * where the set is not the one of which the last of them has the hash: a change was left out, or
 * made past the log.
 * @param {ControlChange[]} changes
 * @param {number} [upTo]
 * @returns {Promise<CedarSet>}
 */
export async function setOf(changes, upTo = Infinity) {
  /** @type {CedarSet['policies']} */
  const policies = new Map();
  let [revision, set] = [0, await hashOf(policies)];
  for (const change of changes) {
    const { inner, source, index, actionType } = change.record;
    const said = changeForm(inner, source, `control record ${index}`);
    if (said.revision > upTo) break;
    if (said.revision !== revision + 1)
      throw new Error(`No control record has revision ${revision + 1} of the policies.`);
    ({ revision, set } = said);
    if (actionType === 'policy.deleted') policies.delete(said.policyId);
    else policies.set(said.policyId, { cedar: said.cedar ?? '', description: said.description ?? '', change });
  }
  if (set !== await hashOf(policies))
    throw new Error(`The policies of revision ${revision} are not those that its control record names.`);
  return { policies, revision, set };
}

/**
 * The policies in force, with their last change; and what differs in what the server says of them,
 * '' for nothing. Both are read once more where they differ, for a change may have come between.
 * @returns {Promise<{now: CedarSet, last: ControlChange | undefined, differs: string}>}
 */
export async function policiesInForce() {
  for (let again = true; ; again = false) {
    const said = await call(listForm, 'GET', '/v1/policies', { asked: NOTHING });
    const changes = await policyChanges();
    const now = await setOf(changes);
    const ids = said.policies.map(({ policyId }) => policyId).sort();
    const same = said.sha256 === now.set && said.revision === now.revision
      && ids.join() === [...now.policies.keys()].sort().join();
    if (same || !again)
      return { now, last: changes.at(-1), differs: same ? '' : `The server says that revision ${said.revision} is in ` +
        `force, with ${ids.length} policies, and the control log has revision ${now.revision}.` };
  }
}

/**
 * The policies that were in force at a decision, from the control records of before it.
 * @param {Decision} decision
 */
export async function policiesAt({ revision, policies }) {
  const found = await setOf(await policyChanges(), revision);
  if (found.revision !== revision || found.set !== policies)
    throw new Error(`The control log has no set of policies with the hash and the revision of this decision.`);
  return found;
}

/** @param {string} id */
const at = (id) => `/v1/policies/${encodeURIComponent(id)}`;

/**
 * @param {string} policyId
 * @param {{cedar: string, description?: string}} body
 * @param {boolean} force although it names what does not exist
 */
export const putPolicy = (policyId, body, force) =>
  call(having({ policyId: string }), 'PUT', `${at(policyId)}${force ? '?force=true' : ''}`, {
    asked: { policyId }, body,
  });

/** @param {string} policyId */
export const deletePolicy = (policyId) => call(having({}), 'DELETE', at(policyId), { asked: NOTHING });

/**
 * What would have been decided otherwise with a draft, or without a policy: of the records from an
 * index on. The server decides them again.
 * @param {{draft?: {policyId: string, cedar: string}, remove?: string[], from: number}} trial
 */
export const tryPolicies = (trial) => call(triedForm, 'POST', '/v1/policies/test', {
  body: trial,
  asked({ decided, different, next }) {
    mustFit(
      different.length <= decided && different.every(({ index }, i) =>
        index >= (i ? different[i - 1].index + 1 : trial.from) && (next === null || index < next)),
      'it names records that were not asked for',
    );
  },
});
