// The verdicts of check.mjs on evidence.json: a list with "holds", "self-consistent", "fails <code>", or "usage" where the policy is none.
import { readFileSync } from "node:fs";
import { Evidence, readPolicy } from "./check.mjs";

console.log(JSON.stringify(JSON.parse(readFileSync("evidence.json", "utf8")).map(({ file, key, policy }) => {
  const trust = key ? { fingerprint: key } : {};
  try {
    if (policy) trust.policy = readPolicy(policy);
  } catch {
    return "usage";
  }
  const { verdict, code } = new Evidence(Buffer.from(file, "base64"), trust).verdict();
  return `${verdict} ${code}`.trim().replace(" only", "");
})));
