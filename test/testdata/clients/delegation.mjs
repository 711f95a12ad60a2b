// Prints the hash of what a record will say of the delegation of each token in a JSON list, or "" of what is none: node delegation.mjs TOKENS
import { createHash } from "node:crypto";
import { canonicalDelegation, delegationOf } from "../../../sdk/typescript/dist/delegation.js";

console.log(JSON.stringify(JSON.parse(process.argv[2]).map((token) => {
  try {
    return createHash("sha256").update(canonicalDelegation(delegationOf(token))).digest("hex");
  } catch {
    return "";
  }
})));
