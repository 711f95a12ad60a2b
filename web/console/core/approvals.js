// @ts-check
// Approvals: calls that wait for a person, and what people decided. A request is read from its
// record, which is checked here; what a passkey signs is built here from that record, and an offer
// of the server that differs is refused.
import { approvalObject, toolOf } from '../lib/approval.js';
import { utf8 } from '../lib/bytes.js';
import { check as checkEvidence } from '../lib/evidence/check.js';
import { FormError, hash, having, integer, json, list, nullable, oneOf, string, timestamp } from '../lib/form.js';
import { member, textOf } from '../lib/json.js';
import { askedBy, challengeOf, notOver, spelled } from '../lib/signed_approval.js';
import { call, records } from './api.js';
import { mustFit, mustName, NOTHING } from './asked.js';
import { checkActions } from './check_actions.js';
import { allChanges } from './control_log.js';
import { evidenceOf } from './evidence.js';
import { getAssertion } from './people.js';
import { signedIn } from './session.js';

const STATES = /** @type {const} */ (['pending', 'approved', 'denied', 'expired', 'used', 'withdrawn']);

/** @type {Form<Approval>} */
const approval = having({
  approvalId: string,
  state: oneOf(...STATES),
  log: string,
  index: integer,
  hash,
  agentId: string,
  tool: string,
  requestReason: nullable(string),
  createdAt: timestamp,
  expiresAt: timestamp,
  quorum: integer,
  approvers: list(string),
  by: list(string),
  reason: nullable(string),
  controlIndex: nullable(integer),
}, { uses: integer, remaining: integer });
const page = having({ approvals: list(approval, 100) }, { next: string });
const offer = having({ object: approvalObject, challenge: string, publicKey: json });
const passkeyRequest = having({ challenge: string, rpId: string, userVerification: string });

/**
 * The newest approvals, of one state or of all: {approvals, next}, where next says that there are
 * more.
 * @param {Approval['state'] | ''} [state]
 */
export const readApprovals = (state = '') =>
  call(page, 'GET', `/v1/approvals${state && `?state=${state}`}`, {
    asked: ({ approvals }) =>
      mustFit(approvals.every((one) => !state || one.state === state), `it lists others than those that are ${state}`),
  });

/** @param {string} id */
const at = (id) => `/v1/approvals/${encodeURIComponent(id)}`;

/** @param {string} approvalId */
export const readApproval = (approvalId) => call(approval, 'GET', at(approvalId), { asked: { approvalId } });

/**
 * The record that an approval is about. Its hash and signature are checked, and that it is in the
 * log which the company's checkpoint signs; throws where it is not what the server lists.
 * @param {Approval} of
 * @returns {Promise<ApprovalRequest>}
 */
export async function requestOf(of) {
  const { index } = of;
  const [record] = await records(index, 1);
  mustFit(record?.index === index, `it has no record ${index}`);
  const [result] = await checkActions([record]);
  if (!result.ok) throw new FormError(`Record ${index} fails: ${result.reason}.`);
  const { text } = await evidenceOf(index, 'actions');
  const found = await checkEvidence(utf8(text), {});
  if (found.verdict === 'fails')
    throw new FormError(`Record ${index} is not proven to be in the log: ${found.reason}.`);
  const { key } = signedIn();
  if (found.last.fingerprint !== key.fingerprint || found.subject.hash !== record.hash)
    throw new FormError(`The proof of record ${index} is of another record, or by another key.`);
  const request = { record, origin: found.log('actions').origin, tool: toolOf(record), ends: '' };
  const asked = askedBy(record);
  if (asked?.approvalId !== of.approvalId)
    throw new FormError(`Record ${index} asks for another approval, or for none.`);
  mustName({
    log: request.origin, hash: record.hash, agentId: record.agentId, tool: request.tool,
    ...(record.actionType === 'approval.requested'
      && { requestReason: textOf(member(record.inner, 'reason')) ?? null }),
    ...(asked.expiresAt && of.state === 'pending' && { expiresAt: asked.expiresAt }),
  }, of, `What the server lists of record ${index}`);
  return { ...request, ends: asked.expiresAt || of.expiresAt };
}

/**
 * What a person would sign.
 * @param {Approval} of
 * @param {ApprovalRequest} request
 * @param {string} person
 * @param {ApprovalChoice} choice
 * @returns {ApprovalObject}
 */
export const objectOf = ({ approvalId }, { record, origin, tool, ends }, person, { verdict, reason, uses, until }) => ({
  approvalId, log: origin, index: record.index, hash: record.hash, agentId: record.agentId, tool, person, verdict,
  uses, expiresAt: until || ends, reason: reason || null,
});

/**
 * Asks the person's passkey to sign an object that was built here, and hands the assertion to the
 * server. Where the server offers anything else, the passkey is not asked.
 * @param {ApprovalObject} object
 * @param {ApprovalChoice} choice
 * @returns {Promise<Approval>}
 */
export async function decide(object, { verdict, reason, uses, until }) {
  const body = { verdict, ...(reason && { reason }), ...(uses > 1 && { uses }), ...(until && { until }) };
  const path = at(object.approvalId);
  const offered = await call(offer, 'POST', `${path}/options`, { asked: NOTHING, body });
  const challenge = await challengeOf(object);
  const asks = passkeyRequest(offered.publicKey.node, offered.publicKey.source, 'publicKey');
  if (spelled(offered.object) !== spelled(object))
    throw new FormError('The server offers something else to sign than the record that is shown here. The passkey ' +
      'was not asked.');
  if (offered.challenge !== challenge || asks.challenge !== challenge || asks.rpId !== location.hostname
    || asks.userVerification !== 'required')
    throw new FormError('The server offers another challenge than this browser computed, or another use of the ' +
      'passkey. The passkey was not asked.');
  const credential = await getAssertion(offered.publicKey);
  return call(approval, 'POST', `${path}/decision`, {
    asked: { approvalId: object.approvalId }, body: { ...body, credential },
  });
}

const decisionForm = having({
  object: approvalObject, authenticatorData: string, clientDataJSON: string, by: nullable(string),
});
const useForm = having({ remaining: integer });

/**
 * The states that an approval can have after its newest control record, of which by people have
 * decided it.
 * @param {Approval} of
 * @param {LogRecord | undefined} newest
 * @returns {Approval['state'][]}
 */
function statesAfter({ by, quorum }, newest) {
  if (!newest) return ['pending', 'expired'];
  if (newest.actionType === 'approval.denied') return ['denied'];
  if (newest.actionType === 'approval.withdrawn') return ['withdrawn'];
  if (newest.actionType === 'approval.used' && useForm(newest.inner, newest.source, 'it').remaining === 0)
    return ['used'];
  return newest.actionType === 'approval.granted' && by.length < quorum ? ['pending', 'expired']
    : ['approved', 'expired'];
}

/**
 * Why a decision of a person is not one of this approval; '' where it is.
 * @param {Approval} of
 * @param {ReturnType<typeof decisionForm>} said
 */
async function notOf({ approvalId, index, hash: recorded, log }, said) {
  const { object, by } = said;
  if (object.approvalId !== approvalId || object.index !== index || object.hash !== recorded || object.log !== log)
    return 'it is of another record';
  return by === `person:${object.person}` ? notOver(object, said) : `it is by ${by ?? 'nobody'}`;
}

/**
 * Holds what the server lists of an approval against its control records, the newest first:
 * {changes, wrong}.
 * @param {Approval} of
 * @returns {Promise<{changes: ControlChange[], wrong: string}>}
 */
export async function decisionsOf(of) {
  const { approvalId, state, controlIndex } = of;
  const changes = (await allChanges({ action: 'approval.*', q: approvalId }))
    .filter(({ subject }) => subject === `approval:${approvalId}`);
  /** @param {string} why */
  const misstated = (why) => ({ changes, wrong: `The control log contradicts what the server lists: ${why}.` });
  /** @type {ReturnType<typeof decisionForm>[]} */
  const decisions = [];
  for (const { record: { actionType, inner, source, index } } of changes.toReversed()) {
    if (actionType !== 'approval.granted' && actionType !== 'approval.denied') continue;
    const said = decisionForm(inner, source, `control record ${index}`);
    const not = await notOf(of, said);
    if (not) return misstated(`control record ${index}: ${not}`);
    if (said.object.verdict !== (actionType === 'approval.granted' ? 'approve' : 'deny'))
      return misstated(`control record ${index} has another verdict than it signs`);
    decisions.push(said);
  }
  const newest = changes[0]?.record;
  const by = decisions.map((said) => said.by);
  const states = statesAfter(of, newest);
  if (!states.includes(state)) return misstated(`it is ${states.join(' or ')}, and not ${state}`);
  if (by.join() !== of.by.join()) return misstated(`it was decided by ${by.join(', ') || 'nobody'}`);
  if (controlIndex !== (newest?.index ?? null)) return misstated('its newest record is another one');
  if (decisions.length && of.reason !== decisions[decisions.length - 1].object.reason)
    return misstated('the decision has another reason');
  if (newest?.actionType === 'approval.used') {
    const { remaining } = useForm(newest.inner, newest.source, 'it');
    if (remaining !== of.remaining) return misstated(`${remaining} uses remain`);
  }
  return { changes, wrong: '' };
}
