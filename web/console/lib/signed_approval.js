// @ts-check
// What the inbox shows of what a person signs, and compares with what the server offers.
import { approvalObject, challengeOf as challengeOfNode } from './approval.js';
import { base64url, unbase64url, text } from './bytes.js';
import { read } from './form.js';
import { canonical } from './jcs.js';
import { member, parse, textOf } from './json.js';

/**
 * The RFC 8785 form of an object.
 * @param {ApprovalObject} object
 */
export const spelled = (object) => canonical(parse(JSON.stringify(object)));

/**
 * What the passkey signs for an object, in base64url.
 * @param {ApprovalObject} object
 */
export const challengeOf = async (object) => base64url(await challengeOfNode(parse(JSON.stringify(object))));

/**
 * The approval that a record asks for, and when it ends where the record says so; null where it
 * asks for none.
 * @param {LogRecord} record
 * @returns {{approvalId: string, expiresAt: string} | null}
 */
export function askedBy({ actionType, inner, decision }) {
  if (actionType === 'approval.requested')
    return {
      approvalId: textOf(member(inner, 'approvalId')) ?? '', expiresAt: textOf(member(inner, 'expiresAt')) ?? '',
    };
  return decision?.verdict === 'ask' && decision.approval ? { approvalId: decision.approval, expiresAt: '' } : null;
}

const clientData = (/** @type {string} */ encoded) => parse(text(unbase64url(encoded)));

/**
 * Why an assertion is none over an object, '' where it is: its challenge, its type, and that the
 * person was there and was verified. Its signature is not checked here.
 * @param {ApprovalObject} object
 * @param {{authenticatorData: string, clientDataJSON: string}} assertion
 */
export async function notOver(object, { authenticatorData, clientDataJSON }) {
  const client = clientData(clientDataJSON);
  if (textOf(member(client, 'challenge')) !== await challengeOf(object)) return 'the passkey signed something else';
  if (textOf(member(client, 'type')) !== 'webauthn.get') return 'the passkey signed for another purpose';
  const flags = unbase64url(authenticatorData)[32] ?? 0;
  return (flags & 5) === 5 ? '' : 'the authenticator did not verify who used it';
}

/**
 * @param {string} source
 * @returns {ApprovalObject}
 */
export const readObject = (source) => read(approvalObject, source, 'object');
