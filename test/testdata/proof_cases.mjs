// What check.mjs says of each case of proof_cases.json, and its exit status.
import { readFileSync, writeFileSync } from "node:fs";
import { main } from "./check.mjs";

let said = "";
const print = console.log;
console.log = (line) => { said += `${line}\n`; };
const came = JSON.parse(readFileSync("proof_cases.json", "utf8")).map(({ proof, keys }) => {
  writeFileSync("javascript_proof", proof);
  writeFileSync("javascript_keys", keys);
  said = "";
  return { status: main(["javascript_proof", "javascript_keys"]), said };
});
print(JSON.stringify(came));
