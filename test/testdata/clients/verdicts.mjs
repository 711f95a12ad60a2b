// The verdicts of the TypeScript client on cases.json: a list with "" for what it accepts, and else why not. node verdicts.mjs CASES
import { readFileSync } from "node:fs";
import { Keys, verifyInclusion, verifyPassport, verifyProof, verifyRecord, verifyStatus, verifyToken } from "../../../sdk/typescript/dist/verify.js";

const { key, cases } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const pin = (text) => Keys.pin(text, [JSON.parse(text)].flatMap((key) => key.keys ?? key).at(-1)?.fingerprint);
const keys = await pin(JSON.stringify(key));
const checks = {
  key: ({ text }) => pin(text),
  record: ({ text }) => verifyRecord(text, keys),
  proof: ({ text }) => verifyProof(text, keys),
  inclusion: ({ text }) => verifyInclusion(text, keys),
  status: ({ text, jti }) => verifyStatus(text, keys, { jti }),
  passport: ({ text }) => verifyPassport(text, keys),
  token: ({ text }) => verifyToken(text, keys),
};
const verdicts = [];
for (const one of cases) verdicts.push(await checks[one.kind](one).then(() => "", String));
console.log(JSON.stringify(verdicts));
