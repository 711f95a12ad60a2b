// The verdicts of the README's check.mjs on readme.json: a list with "" for what it accepts, and else why not.
import { readFileSync } from "node:fs";
import { checkInclusion, checkKey, checkPassport, checkProof, checkRecord, checkStatus, read } from "./check.mjs";

const { key: given, cases } = JSON.parse(readFileSync("readme.json", "utf8"));
const key = read(JSON.stringify(given));
const checks = {
  key: ({ text }) => checkKey(read(text)),
  record: ({ text }) => checkRecord(read(text), key),
  proof: ({ text }) => checkProof(read(text), key),
  inclusion: ({ text }) => checkInclusion(read(text), key),
  status: ({ text, jti }) => checkStatus(read(text), key, jti),
  passport: ({ text }) => checkPassport(text, key),
};
console.log(JSON.stringify(cases.map((one) => {
  try {
    checks[one.kind](one);
    return "";
  } catch (refused) {
    return String(refused);
  }
})));
