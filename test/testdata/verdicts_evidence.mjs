// The verdicts of check.mjs on evidence.json: a list with "holds", "self-consistent", "fails <code>", or "usage" where the policy is none; and whether what is to be said was.
import { readFileSync } from "node:fs";
import { opened, readPolicy } from "./check.mjs";

console.log(JSON.stringify(JSON.parse(readFileSync("evidence.json", "utf8")).map(({ file, key, policy, agentKey, approvers, says }) => {
  const trust = key ? { fingerprint: key } : {};
  try {
    if (policy) trust.policy = readPolicy(policy);
  } catch {
    return "usage";
  }
  if (agentKey) trust.agentKey = agentKey;
  if (approvers) trust.approverKeys = approvers;
  const bytes = Buffer.from(file, "base64");
  let at = 0;
  const checked = opened((room) => {
    const length = bytes.copy(room, 0, at);
    at += length;
    return length;
  }, trust);
  const { verdict, code } = checked.verdict(), said = checked.checked.join("\n");
  const heard = !says?.length ? "" : says.every((text) => said.includes(text)) ? " said" : " not said";
  return `${verdict} ${code}`.trim() + heard;
})));
