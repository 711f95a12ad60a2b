// The record in an answer is that of what was sent, or there is none to believe in.
import { canonical, canonicalize } from "./console/lib/jcs.js";
import { member, parse, type JSONNode } from "./console/lib/json.js";
import { canonicalDelegation, delegationOf } from "./delegation.js";
import { PRUNED_DECISION, RecordMismatchError } from "./errors.js";
import type { AttestationRecord } from "./operations.js";

/** Who sends, as far as it bears on what a record says. */
export interface Sender {
  /** "" where it is not known. */
  companyId: string;
  /**
   * The credential may be an access token of an agent that has signed in for a person: then its
   * records name that person as their delegation.
   */
  mayActForPerson: boolean;
}

const textOf = (node: JSONNode | undefined) => (node?.type === "string" ? node.value : undefined);

function expected(token: string): string | undefined {
  try {
    return canonicalDelegation(delegationOf(token));
  } catch {
    return undefined; // no record can be of it
  }
}

/**
 * What in a record is not what was sent; "" where all of it is. sent is an item as JSON. Of a
 * record whose payload was pruned since, the hash is compared in place of the payload.
 */
async function differs(record: JSONNode, sent: JSONNode, { companyId, mayActForPerson }: Sender): Promise<string> {
  const token = textOf(member(sent, "delegation"));
  const delegation = member(record, "delegation");
  const person = !token && mayActForPerson && textOf(member(delegation, "subject"))?.includes("#");
  if ((delegation ? canonical(delegation) : "") !== (token ? expected(token) : "") && !person) return "delegation";
  const isPruned = member(record, "pruned")?.type === "true";
  // the hash covers the decision, too
  if (isPruned && member(sent, "decide")?.type === "true") return PRUNED_DECISION;
  if (isPruned) return await hashes(record, sent, companyId) ? "" : "hash";
  const payload = member(record, "payload");
  const names = ["agentId", "actionType", "statement", "payload"];
  const wrong = names.find((name) => {
    const [is, given] = [member(payload, name), member(sent, name)];
    return (is && canonical(is)) !== (given && canonical(given));
  });
  if (wrong) return wrong;
  if (member(sent, "decide")?.type === "true" && !member(payload, "decision")) return "decision";
  return companyId && textOf(member(payload, "companyId")) !== companyId ? "companyId" : "";
}

// Whether a record without its payload has the hash of what was sent. Without the ID of the company
// it is unknown.
async function hashes(record: JSONNode, sent: JSONNode, companyId: string): Promise<boolean> {
  const names = ["actionType", "agentId", "payload", "statement"];
  const members = names.flatMap((name) => { const value = member(sent, name); return value ? [`${JSON.stringify(name)}:${canonical(value)}`] : []; });
  const index = member(record, "index");
  const delegation = member(record, "delegation");
  if (!companyId || index?.type !== "number") return false;
  const payload = canonicalize(`{"companyId":${JSON.stringify(companyId)},${members.join()}}`);
  const preimage = `${index.lexeme}|${textOf(member(record, "timestamp"))}|${payload}${delegation ? `|${canonical(delegation)}` : ""}`;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(preimage)));
  return textOf(member(record, "hash")) === Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Reads the records of an answer, and requires that each is that of what was sent, JSON without the
 * idempotency key or with it. An Error says that it is no answer of the service.
 */
export async function recordsOf(operation: string, answer: string, sent: readonly string[], sender: Sender): Promise<AttestationRecord[]> {
  const node = parse(answer);
  const list = member(node, "records");
  const nodes = list?.type === "array" ? list.items : [node];
  if (nodes.length !== sent.length) throw new Error("not as many records as were sent");
  if (!nodes.every((one) => textOf(member(one, "hash")) && textOf(member(one, "signature")))) throw new Error("not a record");
  const wrong = new Map<number, string>();
  for (const [i, text] of sent.entries()) {
    const what = await differs(nodes[i]!, parse(text), sender);
    if (what) wrong.set(i, what);
  }
  if (wrong.size > 0) throw new RecordMismatchError(operation, wrong);
  return nodes.map((one) => JSON.parse(answer.slice(one.start, one.end)) as AttestationRecord);
}
