// The second half of `npm run build`: beside what tsc has made it puts the console's own modules, so that there is one code that checks records and
// evidence in JavaScript, and not two. Their types stand in src/console.
import { cpSync, readdirSync } from "node:fs";

const web = new URL("../../web/", import.meta.url);
const src = new URL("src/", import.meta.url);
const dist = new URL("dist/", import.meta.url);
const copy = (root, from, names) => names.forEach((name) => cpSync(new URL(`${from}/${name}`, root), new URL(`${from}/${name}`, dist), { recursive: true }));

copy(web, "console/lib", readdirSync(new URL("console/lib", web)));
copy(web, "console/vendor", ["noble"]);
copy(src, "console/lib", readdirSync(new URL("console/lib", src)));
