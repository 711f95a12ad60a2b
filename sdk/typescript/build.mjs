// Builds the package: `npm run build`, and `npm ci` here or of a project that has this folder as a
// dependency, for which the compiler is installed first where it is missing. The types of requests
// and answers (src/openapi.ts) are made from the API reference, and tsc makes the ES modules;
// beside them go the console's own modules, so that there is one code that checks records and
// evidence in JavaScript, and not two (their types stand in src/console); and all of it is made
// again as CommonJS, in dist/cjs.
import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const web = join(here, "../../web");
const console = join("console", "lib");
const compiler = join(here, "node_modules/typescript/lib/tsc.js");
const generator = join(here, "node_modules/openapi-typescript/bin/cli.js");
const run = (...args) => execFileSync(process.execPath, args, { cwd: here, stdio: "inherit" });

if (!existsSync(compiler)) run(process.env.npm_execpath, "ci", "--prefix", here, "--ignore-scripts", "--no-audit", "--no-fund");

// It is put in place when it is whole: another build may be under way.
const made = mkdtempSync(join(here, ".dist-"));
try {
  const types = join(made, "openapi.ts");
  run(generator, join(web, "openapi.yaml"), "--default-non-nullable", "false", "-o", types);
  renameSync(types, join(here, "src/openapi.ts"));
  run(compiler, "--outDir", made);
  for (const from of [join(web, console), join(here, "src", console)]) cpSync(from, join(made, console), { recursive: true });
  cpSync(join(web, "console/vendor/noble"), join(made, "console/vendor/noble"), { recursive: true });
  makeCommonJS(made, join(made, "cjs"));
  chmodSync(made, 0o755);
  rmSync(join(here, "dist"), { recursive: true, force: true });
  renameSync(made, join(here, "dist"));
} finally {
  rmSync(made, { recursive: true, force: true });
}

function makeCommonJS(from, to) {
  const { transpileModule, ModuleKind, ScriptTarget } = createRequire(import.meta.url)("typescript");
  const compilerOptions = { module: ModuleKind.CommonJS, target: ScriptTarget.ES2022, esModuleInterop: true };
  const files = readdirSync(from, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  for (const { parentPath, name } of files) {
    const text = readFileSync(join(parentPath, name), "utf8");
    const path = join(to, parentPath.slice(from.length), name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, name.endsWith(".js") ? transpileModule(text, { compilerOptions, fileName: name }).outputText : text);
  }
  writeFileSync(join(to, "package.json"), '{ "type": "commonjs" }\n');
}
