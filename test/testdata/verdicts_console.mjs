// The verdicts of the console's own modules on cases.json: a list with "" for what they accept, and else why not.
// node verdicts_console.mjs FOLDER, where FOLDER is that of the console.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const load = (name) => import(pathToFileURL(`${process.argv[2]}/${name}`));
const [{ publishedKeys }, { prepareKey, prepareRing }, form, { climb, proofForm }, { checkRecord, parseRecord, recordForm }, { checkStatus }, token] = await Promise.all(
  ["core/answers.js", "lib/keyring.js", "lib/form.js", "lib/merkle.js", "lib/record.js", "lib/status.js", "lib/token.js"].map(load));
const { exactly, hash, having, rawKey, read, string } = form;
const publishedKey = having({ companyId: string, spiffeId: string, kid: string, fingerprint: string, pem: string, jwk: having({ x: rawKey }) });
const inclusionProof = exactly({ record: recordForm, proof: proofForm, root: hash });

const { key: given, cases } = JSON.parse(readFileSync("cases.json", "utf8"));
const now = Date.now() / 1000;
const prepareOne = ({ jwk: { x }, ...published }) => prepareKey({ ...published, x });
const ringOf = ({ keys, ...company }) => prepareRing({ ...company, keys: keys.map(({ jwk: { x }, ...one }) => ({ ...one, x })) });
const prepare = (text) => ("origin" in JSON.parse(text) ? ringOf(read(publishedKeys, text, "keys")) : prepareOne(read(publishedKey, text, "key")));
const key = await prepare(JSON.stringify(given));
const checks = {
  key: async ({ text }) => ((await prepare(text)), ""),
  record: async ({ text }) => (await checkRecord(parseRecord(text), key)).reason,
  proof: async ({ text }) => (await checks.inclusion({ text })) || (await checkRecord(read(inclusionProof, text, "proof").record, key)).reason,
  inclusion: async ({ text }) => {
    const { record, proof, root } = read(inclusionProof, text, "proof");
    const { ok, pruned, computed, reason } = await checkRecord(record, key);
    if (!ok && !pruned) return reason;
    return (await climb(pruned ? record.hash : computed, proof)).root === root ? "" : "the path does not lead to the root";
  },
  status: async ({ text, jti }) => ((await checkStatus(text, key, { jti, now })), ""),
  passport: async ({ text }) => (token.decode(text).passport ? checks.token({ text }) : "not a passport"),
  token: async ({ text }) => {
    const about = { now, audience: "service:passport:v1", issuer: "spiffe://attestd.local/ca" };
    return (await token.check(token.decode(text), key, about)).filter(({ ok }) => !ok).map(({ name }) => name).join();
  },
};
const verdicts = [];
for (const one of cases) verdicts.push(await checks[one.kind](one).catch(String));
console.log(JSON.stringify(verdicts));
