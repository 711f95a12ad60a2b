// The second half of `npm run build`: beside what tsc has made it puts the console's and the verifier page's own modules, so that there is one code
// that checks records in JavaScript, and not two. Their types stand in src/verifier and src/console.
import { cpSync, readdirSync } from "node:fs";

const web = new URL("../../web/", import.meta.url);
const src = new URL("src/", import.meta.url);
const dist = new URL("dist/", import.meta.url);
const copy = (root, from, names) => names.forEach((name) => cpSync(new URL(`${from}/${name}`, root), new URL(`${from}/${name}`, dist), { recursive: true }));

copy(web, "console/lib", readdirSync(new URL("console/lib", web)));
copy(web, "console/vendor", ["noble"]);
copy(web, "verifier", ["check.js", "control.js", "file.js", "keys.js", "not_proven.js", "note.js", "policy.js"]);
for (const types of ["console/lib", "verifier"]) copy(src, types, readdirSync(new URL(types, src)));
