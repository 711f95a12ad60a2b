// @ts-check
// One attestation record: read strictly and without loss, and checked from nothing but itself and
// the company's key.
import { concat, hex, text, unbase64url } from './bytes.js';
import { verify } from './ed25519.js';
import { exactly, hash, integer, json, jsonOf, list, oneOf, read, signature, string, timestamp } from './form.js';
import { canonicalBytes } from './jcs.js';
import { member } from './json.js';
import { keyAt } from './keyring.js';
import { sha256 } from './sha256.js';

/**
 * Parts that moved between index, timestamp, payload and delegation would give the same preimage.
 * The forms refuse them.
 * @param {Forms} log
 * @param {{statement?: Form<string>}} said what the agent itself may have signed
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
    {
      delegation: exactly({
        subject: string,
        delegationChain: list(string),
        act: jsonOf('object', 'null'),
        tokenId: string,
      }),
    },
  );

const actionForm = formOf({}, { statement: string });
const controlForm = formOf({ log: oneOf('control') }, {});

/**
 * The form of an AttestationRecord: {text, source, index, timestamp, agentId, companyId,
 * actionType, delegation, hash, signature} and the nodes that were hashed. inner is the node of the
 * caller's own value.
 * @param {JSONNode} node
 * @param {string} source
 * @param {string} name
 * @returns {LogRecord}
 */
export const recordForm = (node, source, name) => of(actionForm, node, source, name);

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
  const { payload, delegation, ...rest } = form(node, source, name);
  return {
    ...rest,
    text: source.slice(node.start, node.end),
    source,
    agentId: payload.agentId,
    companyId: payload.companyId,
    actionType: payload.actionType,
    statement: payload.statement,
    inner: payload.payload.node,
    delegation: delegation && {
      subject: delegation.subject,
      chain: delegation.delegationChain,
      tokenId: delegation.tokenId,
    },
    payloadNode: member(node, 'payload'),
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
export function preimageBytes({ index, timestamp, payloadNode, delegationNode }) {
  const head = canonicalBytes(`${index}|${timestamp}|`, /** @type {JSONNode} */ (payloadNode), delegationNode ? '|'
    : '');
  return delegationNode ? concat(head, canonicalBytes('', delegationNode, '')) : head;
}

/**
 * Recomputes everything of a record with a company's key, {companyId, prepared, ring}: {computed,
 * hashOK, signatureOK, ok, reason}. The signature is checked over the hash that was computed here,
 * never over the one that the record names: it says something about the content that is shown, or
 * nothing. It is over the 32 raw bytes of the digest, not over their hex spelling.
 * @param {LogRecord} record
 * @param {RecordKey} key
 */
export async function checkRecord(record, key) {
  const result = { computed: '', hashOK: false, signatureOK: false, ok: false, reason: '' };
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
