// @ts-check
// The Markdown that the service's API document is written in, and no more: headings (##),
// paragraphs, lists, fenced code, tables; in a line code, **strong**, *emphasis* and links to
// https. Anything else stays text. The result is a tree of plain objects, from which
// parts/markdown.js makes elements; no HTML is ever read.
//
// Blocks: {type: heading, id, text, content} · {paragraph, content} · {list, ordered, items:
// [blocks]} · {code, text} · {table, head: [content], rows: [[content]]}. Content is a list of
// strings and {type: code|strong|em|link, text, content, to}.

const FENCE = /^```[a-z]*$/;
const HEADING = /^##+ (.+)$/;
const ITEM = /^(-|[0-9]+\.) +/;
const RULE = /^\|(?: *:?-+:? *\|)+ *$/;
const INLINE = /(`+)(.+?)\1(?!`)|\*\*(?=\S)(.+?)\*\*|\*(?=[^\s*])([^*]*[^\s*])\*|\[([^\]]+)\]\((https:\/\/[^\s)]+)\)/s;

/**
 * What a heading is called in a URL.
 * @param {string} text
 */
export const slug = (text) => text.replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '');

/**
 * @param {string} text
 * @returns {Inline[]}
 */
export function inline(text) {
  /** @type {Inline[]} */
  const out = [];
  for (let rest = text; rest;) {
    const found = INLINE.exec(rest);
    if (!found) {
      out.push(rest);
      break;
    }
    const [all, , code, strong, em, label, to] = found;
    if (found.index) out.push(rest.slice(0, found.index));
    if (code !== undefined) out.push({ type: 'code', text: code });
    else if (strong !== undefined) out.push({ type: 'strong', content: inline(strong) });
    else if (em !== undefined) out.push({ type: 'em', text: em, content: inline(em) });
    else out.push({ type: 'link', to, content: inline(label) });
    rest = rest.slice(found.index + all.length);
  }
  return out;
}

/**
 * The cells of a table's line; a bar within code or behind a backslash divides nothing.
 * @param {string} line
 */
function cells(line) {
  const parts = line.trim().replace(/^\||\|$/g, '').match(/(?:`[^`]*`|\\\||[^|])+|(?<=\|)(?=\|)/g) ?? [];
  return parts.map((cell) => inline(cell.trim().replaceAll('\\|', '|')));
}

/**
 * The lines of a list's item: its first, and those after it that are indented as far as its text.
 * @param {string[]} lines
 * @param {number} from
 * @param {number} width
 * @returns {[Block[], number]}
 */
function itemAt(lines, from, width) {
  const own = [lines[from].slice(width)];
  const indent = ' '.repeat(width);
  let at = from + 1;
  for (; at < lines.length; at++) {
    const blank = !lines[at].trim() && lines[at + 1]?.startsWith(indent);
    if (!blank && !lines[at].startsWith(indent)) break;
    own.push(lines[at].slice(width));
  }
  return [blocks(own), at];
}

/**
 * @param {string[]} lines
 * @param {number} from
 * @returns {[Block, number]}
 */
function listAt(lines, from) {
  const ordered = !lines[from].startsWith('-');
  const items = [];
  let at = from;
  for (let marker; at < lines.length && (marker = ITEM.exec(lines[at])) && (marker[1] !== '-') === ordered;) {
    const [item, next] = itemAt(lines, at, marker[0].length);
    items.push(item);
    at = next;
  }
  return [{ type: 'list', ordered, items }, at];
}

/**
 * @param {string[]} lines
 * @param {number} from
 * @param {(line: string) => boolean} ends
 */
const endAt = (lines, from, ends) => {
  const found = lines.findIndex((line, i) => i >= from && ends(line));
  return found < 0 ? lines.length : found;
};

/**
 * The block that begins at a line, and the line after it.
 * @param {string[]} lines
 * @param {number} at
 * @returns {[Block, number]}
 */
function blockAt(lines, at) {
  const line = lines[at];
  const heading = HEADING.exec(line);
  if (heading)
    return [{ type: 'heading', id: slug(heading[1]), text: heading[1], content: inline(heading[1]) }, at + 1];
  if (FENCE.test(line)) {
    const end = endAt(lines, at + 1, (l) => l === '```');
    return [{ type: 'code', text: lines.slice(at + 1, end).join('\n') }, end + 1];
  }
  if (ITEM.test(line)) return listAt(lines, at);
  if (line.startsWith('|') && RULE.test(lines[at + 1] ?? '')) {
    const end = endAt(lines, at + 2, (l) => !l.startsWith('|'));
    return [{ type: 'table', head: cells(line), rows: lines.slice(at + 2, end).map(cells) }, end];
  }
  /**
   * @param {string} l
   * @param {number} i
   */
  const begins = (l, i) =>
    !l.trim() ||
    HEADING.test(l) ||
    FENCE.test(l) ||
    /^(-|1\.) /.test(l) ||
    (l.startsWith('|') && RULE.test(lines[i + 1] ?? ''));
  let end = at + 1;
  while (end < lines.length && !begins(lines[end], end)) end++;
  return [{ type: 'paragraph', content: inline(lines.slice(at, end).join(' ')) }, end];
}

/**
 * @param {string[]} lines
 * @returns {Block[]}
 */
function blocks(lines) {
  const out = [];
  for (let at = 0; at < lines.length;) {
    if (!lines[at].trim()) {
      at++;
      continue;
    }
    const [block, next] = blockAt(lines, at);
    out.push(block);
    at = next;
  }
  return out;
}

/**
 * The blocks of a text.
 * @param {string} text
 */
export const parseMarkdown = (text) => blocks(text.split('\n').map((line) => line.trimEnd()));
