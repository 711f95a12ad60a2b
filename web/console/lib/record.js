// @ts-check
// One attestation record: read strictly and without loss, and checked from nothing but itself and
// the company's key.
import { concat, hex, text, unbase64url, unhex } from './bytes.js';
import { decisionForm } from './decision.js';
import { verify } from './ed25519.js';
import {
  exactly,
  hash,
  integer,
  json,
  jsonOf,
  list,
  oneOf,
  onlyTrue,
  read,
  signature,
  string,
  timestamp,
} from './form.js';
import { canonicalBytes } from './jcs.js';
import { member } from './json.js';
import { keyAt } from './keyring.js';
import { sha256 } from './sha256.js';

const delegation = exactly({
  subject: string,
  delegationChain: list(string),
  act: jsonOf('object', 'null'),
  tokenId: string,
});

/**
 * Parts that moved between index, timestamp, payload and delegation would give the same preimage.
 * The forms refuse them.
 * @param {Forms} log
 * @param {{statement?: Form<string>, decision?: typeof decisionForm}} said by the agent itself,
 * and by the policies
 */
const formOf = (log, said) =>
  exactly(
    {
      index: integer,
      timestamp,
      payload: exactly({ agentId: string, companyId: string, actionType: string, payload: json, ...log }, said),
      hash,
      signature,
    },
    { delegation },
  );

const actionForm = formOf({}, { statement: string, decision: decisionForm });
const controlForm = formOf({ log: oneOf('control') }, {});
/** What is left of an action whose payload was pruned. */
const prunedForm = exactly(
  { index: integer, timestamp, payload: jsonOf('null'), pruned: onlyTrue, hash, signature },
  { delegation },
);

/** Why the hash of a record without its payload is not recomputed. */
export const PRUNED = 'its payload was pruned, and without it the hash cannot be recomputed';

/**
 * The form of an AttestationRecord: {text, source, index, timestamp, agentId, companyId,
 * actionType, delegation, hash, signature} and the nodes that were hashed. inner is the node of the
 * caller's own value. Where pruned is true the payload was pruned, and its members are empty.
 * @param {JSONNode} node
 * @param {string} source
 * @param {string} name
 * @returns {LogRecord}
 */
export const recordForm = (node, source, name) =>
  member(node, 'pruned') ? ofPruned(node, source, name) : of(actionForm, node, source, name);

/**
 * The form of a record of the control log, which says so of itself.
 * @param {JSONNode} node
 * @param {string} source
 * @param {string} name
 * @returns {LogRecord}
 */
export const controlRecordForm = (node, source, name) => of(controlForm, node, source, name);

/**
 * @param {ReturnType<typeof formOf>} form
 * @param {JSONNode} node
 * @param {string} source
 * @param {string} name
 * @returns {LogRecord}
 */
function of(form, node, source, name) {
  const { payload, delegation: by, ...rest } = form(node, source, name);
  return {
    ...rest,
    text: source.slice(node.start, node.end),
    source,
    pruned: false,
    agentId: payload.agentId,
    companyId: payload.companyId,
    actionType: payload.actionType,
    statement: payload.statement,
    decision: payload.decision,
    inner: payload.payload.node,
    delegation: by && { subject: by.subject, chain: by.delegationChain, tokenId: by.tokenId },
    payloadNode: member(node, 'payload'),
    delegationNode: member(node, 'delegation'),
  };
}

/**
 * @param {JSONNode} node
 * @param {string} source
 * @param {string} name
 * @returns {LogRecord}
 */
function ofPruned(node, source, name) {
  const { payload, delegation: by, ...rest } = prunedForm(node, source, name);
  return {
    ...rest,
    text: source.slice(node.start, node.end),
    source,
    agentId: '',
    companyId: '',
    actionType: '',
    inner: payload.node,
    delegation: by && { subject: by.subject, chain: by.delegationChain, tokenId: by.tokenId },
    payloadNode: undefined,
    delegationNode: member(node, 'delegation'),
  };
}

/** @param {string} text */
export const parseRecord = (text) => read(recordForm, text, 'record');

/**
 * A record of the log that is named, actions or control; a record of the other one is none.
 * @param {string} log
 * @param {string} text
 */
export const parseRecordOf = (log, text) => read(log === 'control' ? controlRecordForm : recordForm, text, 'record');

/**
 * The text whose UTF-8 bytes are hashed.
 * @param {LogRecord} record
 */
export const preimage = (record) => text(preimageBytes(record));

/**
 * What is hashed.
 * @param {LogRecord} record
 */
export function preimageBytes({ index, timestamp, payloadNode, delegationNode, pruned }) {
  if (pruned) throw new Error(PRUNED);
  const head = canonicalBytes(`${index}|${timestamp}|`, /** @type {JSONNode} */ (payloadNode), delegationNode ? '|'
    : '');
  return delegationNode ? concat(head, canonicalBytes('', delegationNode, '')) : head;
}

/**
 * Recomputes everything of a record with a company's key, {companyId, prepared, ring}: {computed,
 * hashOK, signatureOK, ok, reason, pruned}. The signature is checked over the hash that was
 * computed here, never over the one that the record names: it says something about the content that
 * is shown, or nothing. It is over the 32 raw bytes of the digest, not over their hex spelling.
 *
 * A record without its payload never is ok. pruned is true where it says so of itself and the
 * company has signed the hash that it names: then nothing else of it can be checked.
 * @param {LogRecord} record
 * @param {RecordKey} key
 */
export async function checkRecord(record, key) {
  const result = { computed: '', hashOK: false, signatureOK: false, ok: false, reason: '', pruned: false };
  if (record.pruned) return checkPruned(record, key, result);
  try {
    const digest = await sha256(preimageBytes(record));
    result.computed = hex(digest);
    result.hashOK = result.computed === record.hash;
    result.signatureOK = await verify(keyAt(key, record.index).prepared, unbase64url(record.signature), digest);
  } catch (err) {
    result.reason = err.message;
    return result;
  }
  if (!result.hashOK) result.reason = 'its content does not hash to the hash that it names';
  else if (!result.signatureOK) result.reason = 'this key did not sign it';
  else if (record.companyId !== key.companyId)
    result.reason = `it is of ${record.companyId}, and the key of ${key.companyId}`;
  result.ok = result.reason === '';
  return result;
}

/**
 * @param {LogRecord} record
 * @param {RecordKey} key
 * @param {RecordResult} result
 * @returns {Promise<RecordResult>}
 */
async function checkPruned({ index, hash: named, signature: signed }, key, result) {
  try {
    const signatureOK = await verify(keyAt(key, index).prepared, unbase64url(signed), unhex(named));
    return { ...result, signatureOK, pruned: signatureOK, reason: signatureOK ? PRUNED : 'this key did not sign it' };
  } catch (err) {
    return { ...result, reason: err.message };
  }
}
