// The verdict of the page's own modules on one file: node verdict_large.mjs CONSOLE FILE FINGERPRINT, where CONSOLE is the folder of the console.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, file, fingerprint] = process.argv.slice(2);
const { check } = await import(pathToFileURL(`${folder}/lib/evidence/check.js`));
const { verdict, code } = await check(readFileSync(file), { fingerprint });
console.log(`${verdict} ${code}`.trim());
