// @ts-check
// Approvals: calls that wait for a person, and what people decided. A request is read from its
// record, which is checked here; what a passkey signs is built here from that record, and an offer
// of the server that differs is refused.
import { approvalObject, askedBy, challengeOf, notOver, spelled, toolOf } from '../lib/approval.js';
import { utf8 } from '../lib/bytes.js';
import { check as checkEvidence } from '../lib/evidence/check.js';
import { FormError, hash, having, integer, json, list, nullable, oneOf, string, timestamp } from '../lib/form.js';
import { table } from '../lib/table.js';
import { call, records } from './api.js';
import { mustFit, mustName, NOTHING } from './asked.js';
import { checkActions } from './check_actions.js';
import { changesAt } from './control_log.js';
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
  const { node, source } = offered.publicKey;
  const asks = JSON.parse(source.slice(node.start, node.end));
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

/** The actions of the control records that say how an approval ended. */
const ENDED = table({
  approved: 'approval.granted', pending: 'approval.granted', denied: 'approval.denied', used: 'approval.used',
  withdrawn: 'approval.withdrawn', expired: 'approval.granted',
});
const decisionForm = having({
  object: approvalObject, authenticatorData: string, clientDataJSON: string, by: nullable(string),
});
const useForm = having({ approvalId: string, remaining: integer });
const withdrawalForm = having({ approvalId: string });

/**
 * Holds what the server lists of an approval against its newest control record: {change, wrong}.
 * change is null where it has none.
 * @param {Approval} of
 * @returns {Promise<{change: ControlChange | null, wrong: string}>}
 */
export async function decisionOf(of) {
  const { approvalId, state, controlIndex, by } = of;
  if (controlIndex === null) {
    const none = state === 'pending' || state === 'expired';
    return { change: null, wrong: none && !by.length ? '' : `No control record says that it was ${state}.` };
  }
  const change = (await changesAt([controlIndex])).get(controlIndex);
  if (!change) throw new FormError(`The server has no control record ${controlIndex}.`);
  const { record, subject, ok, flaw } = change;
  const { actionType, inner, source, index } = record;
  /** @param {string} why */
  const misstated = (why) => ({ change, wrong: `Control record ${index} contradicts what the server lists: ${why}.` });
  if (!ok) return misstated(flaw);
  if (subject !== `approval:${approvalId}`) return misstated('it is about another thing');
  if (actionType === 'approval.used' && (state === 'approved' || state === 'expired')) {
    const { remaining } = useForm(inner, source, 'it');
    return remaining === of.remaining ? { change, wrong: '' } : misstated(`${remaining} uses remain`);
  }
  if (actionType !== ENDED[state]) return misstated(`it is ${actionType}`);
  if (actionType === 'approval.used' || actionType === 'approval.withdrawn') {
    withdrawalForm(inner, source, 'it');
    return { change, wrong: '' };
  }
  const said = decisionForm(inner, source, 'it');
  const { object } = said;
  if (object.approvalId !== approvalId || object.index !== of.index || object.hash !== of.hash || object.log !== of.log)
    return misstated('it is of another record');
  if (said.by !== `person:${object.person}` || !by.includes(said.by))
    return misstated(`it is by ${said.by ?? 'nobody'}`);
  if (object.reason !== of.reason) return misstated('it has another reason');
  const not = await notOver(object, said);
  return not ? misstated(not) : { change, wrong: '' };
}
