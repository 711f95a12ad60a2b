import { PayloadError } from "./errors.js";
import { onlyKnown } from "./known.js";
import { encode } from "./text.js";

/** What an agent did, on its way into the chain. */
export interface Attestation {
  /** 1 to 256 characters; the agent need not be registered. */
  agentId: string;
  /** 1 to 256 characters, such as tool.completed. */
  actionType: string;
  /** Any JSON value. */
  payload: unknown;
  /** Token of the delegation under which the agent acts. */
  delegation?: string | null;
  /** Whether the record is to hold a decision by the company's policies: its payload.decision. */
  decide?: boolean;
  /** The folder in which the agent works, for that decision. */
  folder?: string | null;
  /** The agent's passport, for that decision, which names it. The record does not hold it. */
  passport?: string | null;
  /**
   * 1 to 255 printable ASCII characters. Without it the client makes one, the same for all its
   * retries.
   */
  idempotencyKey?: string;
}

/** What an agent did in a session of its own: its key says which agent it is. */
export type OwnAttestation = Omit<Attestation, "agentId"> & { agentId?: string };

/**
 * An attestation as it is sent: its JSON without the key, which is in a header or, in a batch, in
 * the item.
 */
export interface Prepared {
  text: string;
  /** "" of a statement, which is its own key. */
  key: string;
  /** The key is ours, and not the caller's. */
  made: boolean;
}

/** The most items of a batch. */
export const MAX_BATCH = 1000;

const hex = (n: number, digits: number) => n.toString(16).padStart(digits, "0");

/**
 * A unique key: the time, and 128 random bits. The time is first, because the service keeps keys in
 * the order of their beginnings, and those of one time cost it least. crypto.randomUUID is not
 * there in pages without TLS.
 */
export const newKey = (): string => `${hex(Date.now(), 12)}-${Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => hex(byte, 2)).join("")}`;

/** Whether a key has the form of those that this client makes. */
export const isNewKey = (key: string): boolean => /^[0-9a-f]{12}-[0-9a-f]{32}$/.test(key);

/** Makes an attestation ready, once for all its retries. Refuses what could never be sent. */
export function prepare(attestation: Attestation): Prepared {
  onlyKnown("an attestation", attestation, ["agentId", "actionType", "payload", "delegation", "decide", "folder", "passport", "idempotencyKey"]);
  const { agentId, actionType, payload, delegation, decide, folder, passport, idempotencyKey } = attestation;
  const key = idempotencyKey ?? newKey();
  for (const [name, text] of [["/agentId", agentId], ["/actionType", actionType]] as const) {
    const length = typeof text === "string" ? [...text].length : 0;
    if (length < 1 || length > 256) throw new PayloadError(name, "must have 1 to 256 characters");
  }
  if (payload === undefined) throw new PayloadError("/payload", "is missing; null is a payload");
  if (!/^[ -~]{1,255}$/.test(key)) throw new PayloadError("/idempotencyKey", "must have 1 to 255 printable ASCII characters");
  return { text: encode({ agentId, actionType, payload, ...(delegation != null && { delegation }), ...(decide && { decide }), ...(folder != null && { folder }), ...(passport != null && { passport }) }), key, made: idempotencyKey == null };
}

/**
 * The same under another key, which all who have this one choose alike, so that it is recorded
 * once.
 */
export async function rekeyed(one: Prepared): Promise<Prepared> {
  if (!crypto.subtle) return { ...one, key: newKey() }; // a page without TLS, which has no spool
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(itemOf(one))));
  return { ...one, key: `${one.key.slice(0, 12)}-${Array.from(digest.subarray(0, 16), (byte) => hex(byte, 2)).join("")}` };
}

/** A key as the header has it: bare where it can be, else as a quoted string (RFC 8941 §3.3.3). */
export const headerOf = (key: string): string => (/[ "\\]/.test(key) ? `"${key.replace(/["\\]/g, "\\$&")}"` : key);

/** An item of a batch. */
export const itemOf = ({ text, key }: Prepared): string => !key ? text : `${text.slice(0, -1)},"idempotencyKey":${JSON.stringify(key)}}`;

/** The body of a batch, of items that are JSON already. */
export const batchOf = (items: readonly string[]): string => `{"records":[${items.join()}]}`;
