// @ts-check
// What a record says of a call, in words: the tool, what was asked of it, what came of it, and why.
// All of it is the claim of the recorder and text from outside: it is shown through Text, withText
// or visible alone. What a payload looks like is in packages action, telemetry and run.
import { member, parse, textIn, textOf } from '../lib/json.js';
import { table } from '../lib/table.js';

const LONGEST = 240; // characters of a text that a row has
const READ = 4096; // characters among which these mostly are
const ARGUMENTS = 20_000; // characters of JSON in a text that is read

/**
 * The beginning of a text that is too long, without half of a surrogate pair at its end.
 * @param {string} text
 * @param {number} most characters
 */
export const clipped = (text, most) =>
  (text.length <= most ? text : `${text.slice(0, most).replace(/[\ud800-\udbff]$/, '')}…`);

/**
 * The beginning of a text on one line.
 * @param {string} text
 */
export function oneLine(text) {
  /** @param {string} part */
  const line = (part) => part.replace(/\s+/g, ' ').trim();
  const near = line(text.slice(0, READ));
  return clipped(near.length > LONGEST || text.length <= READ ? near : line(text), LONGEST);
}

/**
 * The beginning of a value as it is written, on one line.
 * @param {JSONNode} node
 * @param {string} source
 */
export function beginningOf(node, source) {
  return oneLine(source.slice(node.start, Math.min(node.end, node.start + READ)));
}

const PLAIN_ARGUMENT = /^[\w@%+=:,./~-]+$/;

/**
 * The text of a value: a string, or the arguments of a command as a shell would read them.
 * @param {JSONNode | undefined} value
 */
function shellText(value) {
  if (value?.type === 'string') return value.value;
  if (value?.type !== 'array') return '';
  const parts = value.items.flatMap((item) => (item.type === 'string' ? [item.value] : []));
  if (parts.length < value.items.length) return '';
  return parts.map((part) => (PLAIN_ARGUMENT.test(part) ? part : `'${part.replaceAll("'", "'\\''")}'`)).join(' ');
}

/**
 * What is left of a value that was too long or is to be secret: {sha256, bytes} and, of a long one,
 * the head of its text. null of another value.
 * @param {JSONNode | undefined} node
 */
function shortened(node) {
  const bytes = member(node, 'bytes');
  if (node?.type !== 'object' || !textIn(node, 'sha256') || bytes?.type !== 'number') return null;
  if (node.members.some(({ key }) => !/^(sha256|bytes|head)$/.test(key))) return null;
  return { bytes: bytes.lexeme, head: textIn(node, 'head') };
}

/** @param {string} bytes */
const hashed = (bytes) => `${bytes} bytes, recorded as a hash`;

/**
 * A text that may have been shortened, or any other value as it is written.
 * @param {JSONNode | undefined} node
 * @param {string} source
 */
export function wordsIn(node, source) {
  if (!node || node.type === 'null') return '';
  const text = shellText(node);
  if (text) return text;
  const short = shortened(node);
  if (short) return short.head ? `${short.head}…` : hashed(short.bytes);
  return node.type === 'string' ? '' : source.slice(node.start, node.end);
}

/**
 * How to read what was asked: by the names of its members, the more telling ones first.
 * @type {Record<string, {kind: CallWords['kind'], names: string[], place?: string[]}>}
 */
const READINGS = table({
  command: { kind: 'command', names: ['full_command', 'command', 'cmd', 'bash_command'] },
  patch: { kind: 'file', names: [] },
  file: { kind: 'file', names: ['file_path', 'notebook_path', 'absolute_path', 'filePath', 'path', 'dir_path'] },
  url: { kind: 'url', names: ['url', 'uri'] },
  search: { kind: 'other', names: ['pattern'], place: ['path', 'dir_path', 'glob'] },
  query: { kind: 'other', names: ['query', 'sql', 'statement'] },
  prompt: { kind: 'prompt', names: ['prompt'] },
  title: { kind: 'other', names: ['title', 'subject', 'message', 'text', 'name', 'key', 'id'] },
});
const ORDER = ['command', 'search', 'url', 'query', 'file', 'prompt', 'title'];

/**
 * How to read what was asked of the tools of Claude Code, Codex and Gemini CLI. A tool of these
 * shows what it acts on, whatever other members a call has.
 * @type {Record<string, string>}
 */
const TOOLS = table({
  Bash: 'command', PowerShell: 'command', shell: 'command', local_shell: 'command', exec_command: 'command',
  run_shell_command: 'command', apply_patch: 'patch',
  Read: 'file', Write: 'file', Edit: 'file', MultiEdit: 'file', NotebookEdit: 'file', NotebookRead: 'file', LS: 'file',
  read_file: 'file', write_file: 'file', replace: 'file', list_directory: 'file', view_image: 'file',
  WebFetch: 'url', WebSearch: 'query', google_web_search: 'query',
  Grep: 'search', Glob: 'search', grep_search: 'search', search_file_content: 'search', glob: 'search',
  Task: 'prompt', Agent: 'prompt',
});

const PATCHED = /^\*\*\* (?:Add|Update|Delete) File: (.+)$/gm;

/**
 * The files that a patch of Codex changes.
 * @param {string} patch
 */
const patchedFiles = (patch) => [...patch.slice(0, ARGUMENTS).matchAll(PATCHED)].map(([, path]) => path.trim());

/**
 * What was asked, read in one way; null where it cannot be.
 * @param {string} way
 * @param {(name: string) => string} text of a member
 * @returns {Pick<CallWords, 'what' | 'kind'> | null}
 */
function readAs(way, text) {
  const { kind, names, place = [] } = READINGS[way];
  /** @param {string[]} of */
  const first = (of) => of.map(text).find(Boolean) ?? '';
  if (way === 'patch') {
    const [path, ...more] = patchedFiles(first(['command', 'input', 'patch']));
    return path ? { kind, what: path + (more.length ? ` and ${more.length} more` : '') } : null;
  }
  const what = first(names);
  if (!what) return null;
  const where = first(place);
  return { kind, what: where ? `${what} in ${where}` : what };
}

/**
 * The first member of an object of which only the head of its text is left.
 * @param {string} head
 */
function firstOfHead(head) {
  const [, name = '', escaped = ''] = /^\{"(\w{1,40})":"((?:[^"\\]|\\.)*)/s.exec(head.slice(0, READ)) ?? [];
  const text = parsed(`"${escaped}"`);
  return { name, text: textOf(text ?? undefined) ?? escaped }; // or it is cut within an escape
}

/**
 * What was asked of a tool, unabridged.
 * @param {string} tool
 * @param {JSONNode | undefined} input
 * @param {string} source
 * @returns {Pick<CallWords, 'what' | 'kind'>}
 */
export function askedOf(tool, input, source) {
  const own = TOOLS[tool];
  if (input?.type === 'string') {
    const { value } = input;
    const given = value.startsWith('{') && value.length <= ARGUMENTS ? parsed(value) : null;
    if (given?.type === 'object') return askedOf(tool, given, value);
    return (own === 'patch' && readAs(own, () => value)) || { kind: own ? READINGS[own].kind : 'other', what: value };
  }
  const ways = own ? [own, ...ORDER] : ORDER;
  const short = shortened(input);
  const head = short && firstOfHead(short.head);
  for (const way of ways) {
    const found = head ? readAs(way, (name) => (name === head.name ? `${head.text}…` : ''))
      : readAs(way, (name) => shellText(member(input, name)));
    if (found) return found;
  }
  return { kind: 'other', what: wordsIn(input, source) };
}

/** @param {string} text */
function parsed(text) {
  try {
    return parse(text);
  } catch {
    return null;
  }
}

const MCP_TOOL = /^mcp__(.+?)__(.+)$/s;

/**
 * The name of a tool, after that of its MCP server.
 * @param {JSONNode} inner
 */
function toolOf(inner) {
  const tool = textIn(inner, 'tool');
  const [, server, name] = MCP_TOOL.exec(tool) ?? [];
  if (server) return `${server} ${name}`;
  const of = textIn(inner, 'server');
  return of ? `${of} ${tool}`.trim() : tool;
}

const REFUSAL_OF_OURS = /^(?:PreToolUse:\S+ hook error: )?attestd: ([^]*?), so (?:this call|it) is refused\b[^]*$/;
const TOOL_ERROR = /^<tool_use_error>([^]*)<\/tool_use_error>$/;

/**
 * A reason or error without what stands around it for the model.
 * @param {string} text
 */
const bareReason = (text) => text.replace(TOOL_ERROR, '$1').replace(REFUSAL_OF_OURS, '$1');

/**
 * What a tool gave, as the text that it shows: of a command its output, of an MCP tool its texts.
 * @param {JSONNode | undefined} output
 * @param {string} source
 */
export function outputOf(output, source) {
  const streams = ['stdout', 'stderr'].map((name) => textIn(output, name)).filter(Boolean);
  if (streams.length) return streams.join('\n');
  const content = member(output, 'content') ?? output;
  const texts = content?.type === 'array' ? content.items.map((item) => textIn(item, 'text')).filter(Boolean) : [];
  return texts.length ? texts.join('\n') : textIn(output, 'llmContent') || wordsIn(output, source);
}

/**
 * The outcomes that the name of an action says.
 * @type {Record<string, CallWords['outcome']>}
 */
const OUTCOMES = table({
  'tool.requested': 'requested', 'tool.pending': 'pending', 'tool.completed': 'completed', 'tool.failed': 'failed',
  'tool.denied': 'denied', 'tool.ended': 'ended', 'tool.subagent-ended': 'ended', 'session.ended': 'ended',
  'run.started': 'requested', 'tool.permission-requested': '', 'git.commit': '',
});

/**
 * Of a record of attestd run.
 * @param {LogRecord} record
 * @returns {Partial<CallWords>}
 */
function ofRun({ actionType, inner }) {
  if (actionType === 'git.commit') return { tool: 'git commit', what: textIn(inner, 'subject') };
  const command = shellText(member(inner, 'command'));
  if (actionType === 'run.started') return { tool: 'run', what: command, kind: 'command' };
  const status = member(inner, 'exitStatus');
  const exit = status?.type === 'number' && status.lexeme !== '0' ? `exit status ${status.lexeme}` : '';
  const failed = Boolean(member(inner, 'error') ?? member(inner, 'signal')) || exit;
  const why = textIn(inner, 'error') || textIn(inner, 'signal') || exit;
  return { tool: 'run', outcome: failed ? 'failed' : 'completed', why };
}

const ARGUMENT_ATTRIBUTES = ['gen_ai.tool.call.arguments', 'tool_parameters', 'arguments', 'function_args',
  'ai.toolCall.args', 'tool.parameters', 'input.value'];
const REFUSED = /^(reject|rejected|deny|denied|abort|cancel)$/i;

/**
 * Whether telemetry says that a call has succeeded; null where it does not say.
 * @param {JSONNode} inner
 * @param {JSONNode | undefined} attributes
 */
function succeeded(inner, attributes) {
  const success = member(attributes, 'success');
  const said = success?.type === 'string' ? success.value : success?.type;
  const code = textIn(member(inner, 'status'), 'code');
  if (said === 'false' || code === 'error') return false;
  return said === 'true' || /^ok$/.test(code) ? true : null;
}

/**
 * Of a record of telemetry: a call by its arguments, a prompt by its text, others by their name.
 * @param {LogRecord} record
 * @returns {Partial<CallWords>}
 */
function ofTelemetry({ actionType, inner, source }) {
  const attributes = member(inner, 'attributes');
  const name = textIn(inner, 'name');
  const prompt = textIn(attributes, 'prompt');
  if (actionType === 'otel.event' && prompt) return { what: prompt, kind: 'prompt' };
  const tool = toolOf(inner);
  const given = ARGUMENT_ATTRIBUTES.map((one) => member(attributes, one)).find(Boolean);
  const asked = given && !shortened(given) ? askedOf(textIn(inner, 'tool'), given, source) : { what: name };
  if (actionType === 'otel.decision') {
    const refused = REFUSED.test(textIn(attributes, 'decision'));
    return { tool, ...asked, ...(refused && { outcome: 'denied', why: textIn(attributes, 'source') }) };
  }
  const is = succeeded(inner, attributes);
  const why = wordsIn(member(attributes, 'error') ?? member(member(inner, 'status'), 'message'), source);
  return {
    tool, ...asked,
    ...(is === false && { outcome: 'failed', why }),
    ...(is === true && actionType === 'otel.tool' && { outcome: 'completed' }),
  };
}

/**
 * Of a record of a tool call or the end of a session.
 * @param {LogRecord} record
 * @returns {Partial<CallWords>}
 */
function ofTool({ actionType, inner, source }) {
  const why = wordsIn(member(inner, 'reason'), source) || wordsIn(member(inner, 'error'), source);
  const output = outputOf(member(inner, 'output'), source);
  if (actionType === 'session.ended') return { tool: 'session', why };
  const tool = actionType === 'tool.subagent-ended' ? `subagent ${textIn(inner, 'agentType')}`.trim()
    : actionType === 'tool.permission-requested' ? `permission for ${toolOf(inner)}` : toolOf(inner);
  return {
    tool, ...askedOf(textIn(inner, 'tool').replace(MCP_TOOL, ''), member(inner, 'input'), source),
    why: why && bareReason(why), output,
  };
}

/**
 * Of a record of a decision: what was asked for. The verdict is that of the decision itself.
 * @param {LogRecord} record
 * @returns {Partial<CallWords>}
 */
function ofAuthorization({ inner, source }) {
  const id = textIn(member(inner, 'resource'), 'id');
  if (!id) return { what: source.slice(inner.start, inner.end) };
  return { tool: `authorization for ${id}`, ...askedOf(id, member(inner, 'arguments'), source) };
}

/**
 * Who said what, without its bounds.
 * @param {LogRecord} record
 * @returns {Partial<CallWords>}
 */
function saying(record) {
  const { actionType, inner, source } = record;
  if (/^(run\.(started|ended)|git\.commit)$/.test(actionType)) return ofRun(record);
  if (actionType.startsWith('otel.')) return ofTelemetry(record);
  if (/^(tool\.|approval\.requested$|session\.ended$)/.test(actionType)) return ofTool(record);
  if (/^authorization\.(denied|allowed)$/.test(actionType)) return ofAuthorization(record);
  const short = actionType === 'hook.oversized' ? shortened(member(inner, 'input')) : null;
  if (short) return { what: `an event of ${short.bytes} bytes, too large to be read` };
  return { what: source.slice(inner.start, inner.end) };
}

/**
 * The words of a record: of a call what was asked of which tool, what came of it, and why it was
 * denied or failed; of any other record its action and the beginning of its payload. output is the
 * beginning of what a call gave. decided is what the policies said of it.
 * @param {LogRecord} record
 * @returns {CallWords}
 */
export function callWords(record) {
  const { actionType, decision, pruned } = record;
  if (pruned) return { tool: '', what: '', kind: 'other', outcome: '', why: '', output: '' };
  const said = saying(record);
  return {
    tool: oneLine(said.tool || actionType),
    what: oneLine(said.what ?? ''),
    kind: said.kind ?? 'other',
    outcome: said.outcome ?? OUTCOMES[actionType] ?? '',
    why: oneLine(said.why ?? ''),
    output: oneLine(said.output ?? ''),
    ...(decision && { decided: { verdict: decision.verdict, by: decision.by, code: decision.code } }),
  };
}

/**
 * A call as one line of plain text, which is not made visible yet.
 * @param {CallWords} words
 */
export function sentenceOf({ tool, what, outcome, why }) {
  const asked = [tool, what].filter(Boolean).join(' ');
  if (!outcome || outcome === 'requested') return asked;
  return `${asked} → ${outcome}${why ? `: ${why}` : ''}`;
}
