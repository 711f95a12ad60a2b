// @ts-check
// A call in full, for the page of its record: the command or prompt, what it would change in which
// file, what it gave, and why it was denied or failed.
import { member, textIn, textOf } from '../lib/json.js';
import { askedOf, outputOf, wordsIn } from './call_words.js';
import { lineDiff, linesOf, marked } from './line_diff.js';

/**
 * @param {JSONNode | undefined} node
 * @param {string} name
 */
const stringIn = (node, name) => textOf(member(node, name));

/**
 * What one edit replaces; nothing where it is none.
 * @param {JSONNode | undefined} edit
 * @returns {DiffLine[][]}
 */
function editOf(edit) {
  const [before, after] = [stringIn(edit, 'old_string'), stringIn(edit, 'new_string')];
  return before === undefined || after === undefined ? [] : [lineDiff(before, after)];
}

/** @type {(line: string) => DiffLine} */
const patchLine = (line) => (line.startsWith('+') ? ['+', line.slice(1)] : line.startsWith('-') ? ['-', line.slice(1)]
  : [' ', line]);

/**
 * The lines that a call removes and adds, one list for each place: of an edit those of the old and
 * the new text, of a file that is written all of them, of a patch its own.
 * @param {string} tool
 * @param {JSONNode | undefined} input
 * @returns {DiffLine[][]}
 */
function changesOf(tool, input) {
  const edits = member(input, 'edits');
  const found = edits?.type === 'array' ? edits.items.flatMap(editOf) : editOf(input);
  if (found.length) return found;
  const text = stringIn(input, 'content') ?? stringIn(input, 'new_source');
  if (text !== undefined) return [marked('+', linesOf(text))];
  const patch = textOf(input) ?? stringIn(input, 'command') ?? stringIn(input, 'input');
  return tool === 'apply_patch' && patch !== undefined ? [linesOf(patch).map(patchLine)] : [];
}

/**
 * The parts of a record of a call; each is empty where the record does not have it.
 * @param {LogRecord} record
 * @returns {CallParts}
 */
export function callParts({ actionType, inner, source }) {
  const tool = textIn(inner, 'tool');
  const input = member(inner, actionType === 'run.started' ? 'command' : 'input');
  const { kind, what } = input ? askedOf(actionType === 'run.started' ? 'shell' : tool, input, source)
    : { kind: /** @type {CallWords['kind']} */ ('other'), what: '' };
  const isCall = /^(tool\.|approval\.requested$|run\.started$)/.test(actionType);
  return {
    kind,
    asked: isCall ? what : '',
    changes: isCall && kind === 'file' ? changesOf(tool, input) : [],
    why: isCall ? wordsIn(member(inner, 'reason'), source) || wordsIn(member(inner, 'error'), source) : '',
    output: isCall ? outputOf(member(inner, 'output'), source) : '',
  };
}
