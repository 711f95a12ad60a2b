// The checks of evidence; the build puts web/console/lib/evidence/check.js beside this.
export function check(bytes: Uint8Array, trust: { fingerprint?: string; policy?: unknown; agentKey?: string }): Promise<{
  verdict: "holds" | "fails" | "self-consistent";
  code: string;
  reason: string;
  checked: string[];
  file: { notProven: string[] };
}>;
