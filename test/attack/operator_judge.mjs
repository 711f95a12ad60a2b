// Opinions of check.mjs, or of the console's modules, on the files of standard input.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, which] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(join(folder, path)).href);
const given = JSON.parse(readFileSync(0, "utf8"));
const opinions = [];
if (which === "check") {
  const { opened } = await load("check.mjs");
  for (const { file, key, pin } of given) {
    const bytes = Buffer.from(file, "base64");
    let at = 0;
    const checked = opened((room) => {
      const length = bytes.copy(room, 0, at);
      at += length;
      return length;
    }, pin ? { fingerprint: key, agentKey: pin } : { fingerprint: key });
    const { verdict, code } = checked.verdict();
    opinions.push({ verdict: `${verdict} ${code}`.trim(), said: checked.checked });
  }
} else {
  const { checkFile } = await load("console/lib/evidence/session.js");
  for (const { file, key, pin } of given) {
    const found = await checkFile(new Uint8Array(Buffer.from(file, "base64")), pin ? { fingerprint: key, agentKey: pin } : { fingerprint: key });
    opinions.push({ verdict: found.verdict === "fails" ? `fails ${found.code}` : found.verdict, said: found.checked });
  }
}
console.log(JSON.stringify(opinions));
