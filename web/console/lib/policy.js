// @ts-check
// Policies (c2sp.org/tlog-policy): whose checkpoints are trusted, and who must have cosigned them.
import { equalBytes, utf8 } from './bytes.js';
import { COSIGNER, LOG, cosignature, must, readVKey } from './note.js';

/** A policy while it is read. */
class Reader {
  /** @type {NoteKey[]} */
  logs = [];

  /** @type {[string, NoteKey][]} */
  witnesses = []; // [name, key]

  /** @type {[string, number, string[]][]} */
  groups = []; // [name, how many, members]; members stand before those that they are members of

  name = ''; // of the quorum

  free = new Map([['none', false]]); // by each name that is defined: whether it may still become a member of a group

  /** @param {string} name */
  define(name) {
    must(!this.free.has(name), `${name} is defined already`);
    this.free.set(name, true);
  }

  /** @param {string[]} items */
  async log(items) {
    must(items.length >= 1 && items.length <= 2, 'want log <vkey> [<url>]');
    const key = await readVKey(items[0], LOG);
    must(!this.logs.some(({ raw }) => equalBytes(raw, key.raw)), 'its key is in an earlier line');
    this.logs.push(key);
  }

  /** @param {string[]} items */
  async witness(items) {
    must(items.length >= 2 && items.length <= 3, 'want witness <name> <vkey> [<url>]');
    const key = await readVKey(items[1], COSIGNER);
    must(!this.witnesses.some(([, { raw }]) => equalBytes(raw, key.raw)), 'its key is in an earlier line');
    this.witnesses.push([items[0], key]);
    this.define(items[0]);
  }

  /** @param {string[]} items */
  group([name, asked, ...members]) {
    must(members.length > 0, 'want group <name> all|any|<k> <member>…');
    const k = { all: members.length, any: 1 }[asked] ?? (/^[1-9][0-9]*$/.test(asked) ? Number(asked) : Infinity);
    must(k <= members.length, `of ${members.length} members, ${asked} cannot be asked for`);
    for (const member of members) {
      must(this.free.get(member), `${member} is not defined before, or is a member of a group already`);
      this.free.set(member, false);
    }
    this.groups.push([name, k, members]);
    this.define(name);
  }

  /** @param {string[]} items */
  quorum([name, ...more]) {
    must(
      name !== undefined && !more.length && !this.name && this.free.has(name),
      'want one quorum <name>|none, of a name that is defined before',
    );
    this.name = name;
  }

  /**
   * @param {string} keyword
   * @param {string[]} items
   */
  async line(keyword, items) {
    must(['log', 'witness', 'group', 'quorum'].includes(keyword), `want log, witness, group or quorum, not ${keyword}`);
    await this[/** @type {'log' | 'witness' | 'group' | 'quorum'} */ (keyword)](items);
  }
}

/**
 * Reads a policy. Throws an Error that names the line.
 * @param {string} text
 * @returns {Promise<Policy>}
 */
export async function readPolicy(text) {
  must(utf8(text).length <= 1 << 20, 'the policy is longer than a mebibyte');
  must(
    /(^|\n)$/.test(text) && !/[\0-\x08\x0b-\x1f\x7f]/.test(text),
    'the policy has control characters, or does not end in a line break',
  );
  const policy = new Reader();
  for (const [i, line] of text.split('\n').entries()) {
    const [keyword, ...items] = line.split(/[ \t]+/).filter(Boolean);
    if (keyword === undefined || keyword.startsWith('#')) continue;
    try {
      await policy.line(keyword, items);
    } catch (err) {
      throw new Error(`line ${i + 1} of the policy: ${err.message}`);
    }
  }
  must(policy.name, 'no line of the policy says what the quorum is');
  return policy;
}

/**
 * The names of a policy's witnesses that have cosigned a checkpoint, or null where they are no
 * quorum. Throws where a cosignature of one does not verify.
 * @param {Policy} policy
 * @param {{lines: NoteLine[], text: string}} checkpoint
 * @returns {Promise<string[] | null>}
 */
export async function quorum(policy, { lines, text }) {
  const by = [];
  for (const [name, witness] of policy.witnesses) {
    for (const line of lines.slice(1)) if (await cosignature(line, text, [witness])) by.push(name);
  }
  const names = new Set(['none', ...by]);
  for (const [name, k, members] of policy.groups)
    if (members.filter((member) => names.has(member)).length >= k) names.add(name);
  return names.has(policy.name) ? by : null;
}
