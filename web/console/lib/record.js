// One attestation record: read without loss, and checked from nothing but itself and the company's key.
import { hex, isHash, unbase64url, unhex, utf8 } from './bytes.js';
import { verify } from './ed25519.js';
import { canonical } from './jcs.js';
import { member, parse, stringOf } from './json.js';
import { sha256 } from './sha256.js';

/**
 * Reads an AttestationRecord from a node of json.js and the text it was parsed from.
 * payload and delegation stay nodes; inner is the node of the caller's own value.
 */
export function readRecord(node, source) {
  const payload = member(node, 'payload');
  const record = {
    text: source.slice(node.start, node.end),
    source,
    indexText: member(node, 'index')?.lexeme,
    timestamp: stringOf(member(node, 'timestamp')),
    payload,
    inner: member(payload, 'payload'),
    agentId: stringOf(member(payload, 'agentId')) ?? '',
    companyId: stringOf(member(payload, 'companyId')) ?? '',
    actionType: stringOf(member(payload, 'actionType')) ?? '',
    delegation: member(node, 'delegation'),
    hash: stringOf(member(node, 'hash')),
    signature: stringOf(member(node, 'signature')),
  };
  record.index = Number(record.indexText);
  if (!/^(0|[1-9][0-9]*)$/.test(record.indexText ?? '') || !Number.isSafeInteger(record.index)) throw new Error('record: no index');
  if (record.timestamp === undefined) throw new Error('record: no timestamp');
  if (payload === undefined) throw new Error('record: no payload');
  if (!isHash(record.hash)) throw new Error('record: no hash');
  if (record.signature === undefined) throw new Error('record: no signature');
  return record;
}

export const parseRecord = (text) => readRecord(parse(text), text);

/** The text whose UTF-8 bytes are hashed. */
export function preimage(record) {
  const parts = [record.indexText, record.timestamp, canonical(record.payload)];
  if (record.delegation) parts.push(canonical(record.delegation));
  return parts.join('|');
}

/**
 * Recomputes everything of a record: {preimage, computed, hashOK, signatureOK, ok, reason}.
 * The signature is over the 32 raw bytes of the digest, not over its hex spelling.
 */
export async function checkRecord(record, key) {
  const result = { preimage: '', computed: '', hashOK: false, signatureOK: false, ok: false, reason: '' };
  try {
    result.preimage = preimage(record);
    result.computed = hex(await sha256(utf8(result.preimage)));
    result.hashOK = result.computed === record.hash;
    result.signatureOK = await verify(key, unbase64url(record.signature), unhex(record.hash));
  } catch (err) {
    result.reason = err.message;
  }
  result.ok = result.hashOK && result.signatureOK;
  if (!result.ok && !result.reason) {
    result.reason = result.hashOK ? 'the signature does not verify' : 'the content does not hash to the recorded hash';
  }
  return result;
}

/** What a record's DelegationInfo says: {subject, chain, tokenId}, or null. */
export function delegationOf(record) {
  if (!record.delegation) return null;
  const chain = member(record.delegation, 'delegationChain');
  return {
    subject: stringOf(member(record.delegation, 'subject')) ?? '',
    chain: chain?.type === 'array' ? chain.items.map((n) => stringOf(n) ?? '?') : [],
    tokenId: stringOf(member(record.delegation, 'tokenId')) ?? '',
  };
}
