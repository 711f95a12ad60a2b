// What the record of an action under a delegation says of it. A client makes it of the token, and
// checks nothing of that: the service does.
import { unbase64url } from "./console/lib/bytes.js";
import { canonicalize } from "./console/lib/jcs.js";
import { PayloadError } from "./errors.js";

/** The DelegationInfo of a record. */
export interface DelegationInfo {
  subject: string;
  delegationChain: string[];
  act: object | null;
  tokenId: string;
}

/** How many actors a chain has at most. */
const MAX_ACTORS = 10;

/**
 * The content of a part of a compact JWS that was made here, or is not checked here: 0 is the
 * header, 1 the claims.
 */
export const partOf = (token: string, part: number): Record<string, unknown> =>
  JSON.parse(new TextDecoder().decode(unbase64url(token.split(".")[part] ?? ""))) as Record<string, unknown>;

/**
 * What the record of an action under a token will say of the delegation. SVIDs and delegation
 * tokens have the first actor outermost; access tokens have it innermost (RFC 8693 §4.1).
 */
export function delegationOf(token: string): DelegationInfo {
  try {
    const { typ } = partOf(token, 0);
    const { sub, jti, act } = partOf(token, 1);
    if (typ !== "JWT" && typ !== "at+jwt" || typeof sub !== "string" || typeof jti !== "string" || !jti) throw new Error("no such token");
    const actors = actorsOf(act);
    if (typ === "at+jwt") actors.reverse();
    return { subject: sub, delegationChain: [sub, ...actors], act: actOf(actors), tokenId: jti };
  } catch {
    throw new PayloadError("/delegation", "is no token of a delegation: its header must have the typ JWT or at+jwt, and its claims sub, jti and perhaps act");
  }
}

function actorsOf(act: unknown): string[] {
  const actors: string[] = [];
  for (let at = act; at !== undefined;) {
    const { sub, act: inner, ...rest } = at as { sub?: unknown; act?: unknown };
    if (typeof sub !== "string" || Object.keys(rest).length > 0 || actors.length === MAX_ACTORS) throw new Error("no actor");
    actors.push(sub);
    at = inner;
  }
  return actors;
}

const actOf = (actors: readonly string[]): object | null =>
  actors.reduceRight<object | null>((act, sub) => (act ? { sub, act } : { sub }), null);

/** The canonical form (RFC 8785), whose SHA-256 a statement names. */
export const canonicalDelegation = (info: DelegationInfo): string => canonicalize(JSON.stringify(info));
