import type { Prepared } from "./keyring.js";

export interface Decoded {
  kind: "passport" | "delegation" | "SVID";
  claims: { source: string };
  passport: { agentId: string; org: string; scopes: string[]; delegationChain: string[] } | null;
}

export interface DetailEntry {
  tools: string[];
  tests: unknown;
}

export function detailsOf(decoded: Decoded): DetailEntry[] | null;
export function decode(token: string): Decoded;
export function check(decoded: Decoded, key: Prepared, expected: { audience: string; issuer: string; now: number }): Promise<{ name: string; ok: boolean; detail: string }[]>;
