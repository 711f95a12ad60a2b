// @ts-check
// A strict JSON parser that loses nothing. JSON.parse turns 12345678901234567890 into another
// number, keeps the last of two equal keys and forgets how a value was spelled. What was signed
// must be shown and hashed exactly as it is, so each node has its place in the source text.
//
// Nodes: {type, start, end} with
//   object: members [{key, value, start, end}] (start and end are those of the key)   array: items
//   string: value    number: lexeme    true, false, null: nothing more

/** Where (a JSON Pointer, RFC 6901; '' is the whole value) and why a text is refused. */
export class JSONError extends Error {
  /**
   * @param {string} pointer
   * @param {string} reason
   */
  constructor(pointer, reason) {
    super(pointer ? `${pointer}: ${reason}` : reason);
    this.pointer = pointer;
    this.reason = reason;
  }
}

const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const LONE_SURROGATE = /\p{Surrogate}/u;

const FEW = 16; // members, among which a name is found without a Set

class Parser {
  /**
   * @param {string} source
   * @param {number} maxDepth
   */
  constructor(source, maxDepth) {
    this.source = source;
    this.maxDepth = maxDepth;
    this.at = 0;
    /** @type {(string | number)[]} */
    this.path = [];
  }

  /**
   * @param {string} reason
   * @returns {never}
   */
  fail(reason) {
    const pointer = this.path.map((p) => '/' + String(p).replace(/~/g, '~0').replace(/\//g, '~1')).join('');
    throw new JSONError(pointer, reason);
  }

  space() {
    for (;;) {
      const c = this.source.charCodeAt(this.at);
      if (c !== 0x20 && c !== 0x0a && c !== 0x0d && c !== 0x09) return;
      this.at++;
    }
  }

  /**
   * @param {number} depth
   * @returns {JSONNode}
   */
  value(depth) {
    const start = this.at;
    switch (this.source[start]) {
      case '{': return this.object(depth + 1);
      case '[': return this.array(depth + 1);
      case '"': return { type: 'string', value: this.string(), start, end: this.at };
      case 't': return this.word('true');
      case 'f': return this.word('false');
      case 'n': return this.word('null');
      case undefined: return this.fail('unexpected end');
    }
    NUMBER.lastIndex = start;
    const m = NUMBER.exec(this.source);
    if (!m) return this.fail(`unexpected character at offset ${start}`);
    this.at = NUMBER.lastIndex;
    return { type: 'number', lexeme: m[0], start, end: this.at };
  }

  /**
   * @param {'true' | 'false' | 'null'} w
   * @returns {JSONNode}
   */
  word(w) {
    const start = this.at;
    if (!this.source.startsWith(w, start)) this.fail(`unexpected character at offset ${start}`);
    this.at += w.length;
    return { type: w, start, end: this.at };
  }

  string() {
    const start = this.at;
    let plain = true;
    for (this.at++; ; ) {
      PLAIN.lastIndex = this.at;
      PLAIN.exec(this.source);
      this.at = PLAIN.lastIndex;
      const c = this.source[this.at];
      if (c === '"') break;
      if (c !== '\\') this.fail(c === undefined ? 'unterminated string' : 'control character in a string');
      plain = false;
      this.at += 2;
    }
    this.at++;
    let value;
    try {
      value = plain ? this.source.slice(start + 1, this.at - 1)
        : JSON.parse(this.source.slice(start, this.at)); // a slice is no copy
    } catch {
      this.fail('bad escape in a string');
    }
    if (LONE_SURROGATE.test(value)) this.fail('lone surrogate');
    return value;
  }

  /**
   * @param {number} depth
   * @returns {JSONNode}
   */
  array(depth) {
    const start = this.at++;
    if (depth > this.maxDepth) this.fail(`nested deeper than ${this.maxDepth}`);
    const items = [];
    this.space();
    if (this.source[this.at] !== ']') {
      for (;;) {
        this.path.push(items.length);
        items.push(this.value(depth));
        this.path.pop();
        if (!this.comma(']')) break;
      }
    }
    this.at++;
    return { type: 'array', items: items.slice(), start, end: this.at }; // without the room that push has made
  }

  /**
   * @param {number} depth
   * @returns {JSONNode}
   */
  object(depth) {
    const start = this.at++;
    if (depth > this.maxDepth) this.fail(`nested deeper than ${this.maxDepth}`);
    const members = [];
    /** @type {Set<string> | null} */
    let seen = null; // names of an object that has many
    this.space();
    if (this.source[this.at] !== '}') {
      for (;;) {
        if (this.source[this.at] !== '"') this.fail(`expected a key at offset ${this.at}`);
        /** @type {any} */
        const member = { start: this.at, key: this.string(), end: this.at };
        this.path.push(member.key);
        if (members.length === FEW) seen = new Set(members.map(({ key }) => key));
        if (seen ? seen.has(member.key) : members.some(({ key }) => key === member.key)) this.fail('duplicate key');
        seen?.add(member.key);
        this.space();
        if (this.source[this.at] !== ':') this.fail(`expected ":" at offset ${this.at}`);
        this.at++;
        this.space();
        member.value = this.value(depth);
        this.path.pop();
        members.push(member);
        if (!this.comma('}')) break;
      }
    }
    this.at++;
    return { type: 'object', members: members.slice(), start, end: this.at };
  }

  /**
   * True after a comma, false at the closing character, which stays.
   * @param {string} close
   */
  comma(close) {
    this.space();
    const c = this.source[this.at];
    if (c === close) return false;
    if (c !== ',') this.fail(c === undefined ? 'unexpected end' : `expected "," or "${close}" at offset ${this.at}`);
    this.at++;
    this.space();
    return true;
  }
}

/**
 * Parses a text that holds exactly one JSON value, nested at most maxDepth deep.
 * @param {string} source
 * @param {number} [maxDepth]
 * @returns {JSONNode}
 */
export function parse(source, maxDepth = 160) {
  const p = new Parser(source, maxDepth);
  p.space();
  const node = p.value(0);
  p.space();
  if (p.at !== source.length) p.fail(`unexpected character at offset ${p.at}`);
  return node;
}

/**
 * The value of a member of an object node, or undefined.
 * @param {JSONNode | undefined} node
 * @param {string} key
 * @returns {JSONNode | undefined}
 */
export function member(node, key) {
  return node?.type === 'object' ? node.members.find((m) => m.key === key)?.value : undefined;
}

/**
 * The text of a string, or undefined.
 * @param {JSONNode | undefined} node
 */
export const textOf = (node) => (node?.type === 'string' ? node.value : undefined);

/**
 * The text of a member of an object node; '' where it has none.
 * @param {JSONNode | undefined} node
 * @param {string} key
 */
export const textIn = (node, key) => textOf(member(node, key)) ?? '';
