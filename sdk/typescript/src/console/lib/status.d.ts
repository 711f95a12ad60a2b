import type { Prepared } from "./keyring.js";

export interface Status {
  status: "valid" | "revoked" | "unknown";
  checkedAt: string;
  revokedAt?: string;
  reason?: string;
}

export function checkStatus(text: string, key: Prepared, about: { jti: string; now: number; maxAge?: number }): Promise<Status>;
