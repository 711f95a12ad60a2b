// The checks of the verifier page; the build puts web/verifier/check.js beside this.
export function check(bytes: Uint8Array, trust: { fingerprint?: string; policy?: unknown }): Promise<{
  verdict: "holds" | "fails" | "self-consistent";
  code: string;
  reason: string;
  checked: string[];
  file: { notProven: string[] };
}>;
