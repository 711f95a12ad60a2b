// Prints which of some names are no methods of the TypeScript client. node names.mjs NAME...
import { Client } from "../../../sdk/typescript/dist/index.js";

console.log(JSON.stringify(process.argv.slice(2).filter((name) => typeof Client.prototype[name] !== "function")));
