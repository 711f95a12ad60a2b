// Prints what the TypeScript client's table says of each operation.
import { operations } from "../../../sdk/typescript/dist/index.js";

const said = ({ call, status = 200, query = null, header = null, members = null }) => ({ call, status, query, header, members });
console.log(JSON.stringify(Object.fromEntries(Object.entries(operations).map(([name, route]) => [name, said(route)]))));
