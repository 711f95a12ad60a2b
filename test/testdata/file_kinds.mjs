// What check.mjs says of the files in kinds.json, in base64, or the console's lib, whose folder is given: a list of the kinds and who checks them.
import { readFileSync } from "node:fs";

const [library] = process.argv.slice(2), files = JSON.parse(readFileSync("kinds.json", "utf8")).map((file) => Buffer.from(file, "base64"));

async function ofConsole() {
  const { kindIs, kindOf } = await import(`${library}/file_kind.js`);
  return files.map((file) => kindOf(new Uint8Array(file))).map((kind) => kind && `${kind}: ${kindIs(kind)}`);
}

async function ofChecker() {
  const { BEGIN, KINDS, kindOf } = await import("./check.mjs");
  return files.map((file) => kindOf(file.subarray(0, BEGIN))).map((kind) => kind && `${kind}: ${KINDS[kind].join(": ")}`);
}

console.log(JSON.stringify(await (library ? ofConsole() : ofChecker())));
