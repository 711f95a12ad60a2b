// What the modules of the console say of the files in cases.json, whose lib is given: a list of {words, lines}; words is "" where the console does not read the file.
import { readFileSync } from "node:fs";

const [library] = process.argv.slice(2);
const [{ checkFile }, { checkReport }, { inWords, summary }, { kindIs, kindOf }, { readPolicy }] =
  await Promise.all(["evidence/session", "report", "evidence/summary", "file_kind", "policy"].map((name) => import(`${library}/${name}.js`)));

async function verdictOn({ file, key, policy, agentKey }) {
  const bytes = new Uint8Array(readFileSync(file)), kind = kindOf(bytes.subarray(0, 8 << 20));
  const trust = { ...key && { fingerprint: key }, ...policy && { policy: await readPolicy(policy) }, ...agentKey && { agentKey } };
  if (kind === "report") {
    async function* lines() {
      for (const line of readFileSync(file, "utf8").trimEnd().split("\n")) yield new TextEncoder().encode(line);
    }
    return { words: inWords(await checkReport(lines(), trust, () => {}, () => {})), lines: [] };
  }
  if (kind && kind !== "evidence" && kind !== "session") return { words: "", lines: [`${file} is ${kindIs(kind)}`] };
  const found = await checkFile(bytes, trust);
  return { words: inWords(found), lines: found.verdict === "fails" ? [] : summary(found).map(([name, text]) => `${name}: ${text}`) };
}

const said = [];
for (const one of JSON.parse(readFileSync("cases.json", "utf8"))) said.push(await verdictOn(one));
console.log(JSON.stringify(said));
