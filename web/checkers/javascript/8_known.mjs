
// The keys of companies that this machine trusts, which attestd trust stores, are lines
// "COMPANY SHA256:…". Who can change or replace their file could choose the keys.
const MOST_KNOWN = 64 << 10; // bytes of the file

function knownFile() { // its path; undefined without a configuration folder
  const { AppData, HOME, XDG_CONFIG_HOME } = process.env, inHome = (below) => HOME && `${HOME}/${below}`;
  const folder = process.platform === "win32" ? AppData
    : process.platform === "darwin" ? inHome("Library/Application Support")
      : !XDG_CONFIG_HOME ? inHome(".config") : isAbsolute(XDG_CONFIG_HOME) ? XDG_CONFIG_HOME : undefined;
  return folder ? resolve(folder, "attestd", "trusted-keys") : undefined;
}

// nobody else, root aside, can change what stands at a path, or a folder above it
function mustBeOwn(path, above = false, links = 0) {
  if (!process.geteuid) return; // elsewhere no mode says so
  const found = lstatSync(path), mode = found.mode & 0o7777;
  must([0, process.geteuid()].includes(found.uid), `${path} belongs to another user`);
  if (found.isSymbolicLink()) {
    must(links < 40, `${path}: too many links`);
    mustBeOwn(resolve(dirname(path), readlinkSync(path)), above, links + 1);
  } else {
    const isShared = (mode & 0o022) !== 0 && !(above && (mode & 0o1000) !== 0);
    must(!isShared, `others can write ${path} (mode ${mode.toString(8)}), and so change which keys are trusted; chmod go-w`);
  }
  if (dirname(path) !== path) mustBeOwn(dirname(path), true, links);
}

class NotUsable extends Error {} // the file of trusted keys is there, and cannot be relied on

function knownKeys() { // the fingerprint of each company
  const path = knownFile();
  let file;
  try {
    if (!path) return new Map();
    // to open a pipe would wait
    file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    must(fstatSync(file).isFile(), `${path} is not a regular file`);
    mustBeOwn(path);
    const source = sourceOf(file).begin(MOST_KNOWN + 1);
    must(source.length <= MOST_KNOWN, `${path} has more than ${MOST_KNOWN} bytes`);
    return parseKnown(path, source);
  } catch (refused) {
    if (refused.code === "ENOENT") return new Map();
    throw new NotUsable(refused.message);
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

function parseKnown(path, source) {
  const keys = new Map();
  source.toString("latin1").split("\n").forEach((line, i) => {
    const words = line.split(/[ \t\v\f\r]+/).filter(Boolean), [company, key] = words;
    if (words.length === 0 || company.startsWith("#")) return;
    must(words.length === 2 && COMPANY(company) && isFingerprint(key),
      `${path}: line ${i + 1} is not a company and the fingerprint of a key: ${canonical(words.join(" "))}`);
    must(!keys.has(company), `${path}: line ${i + 1}: ${company} has two keys; remove the one that is not the company's`);
    keys.set(company, key);
  });
  return keys;
}

const isFingerprint = like(/^SHA256:[A-Za-z0-9_-]{43}$/);
