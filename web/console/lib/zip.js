// @ts-check
// A ZIP archive of a few texts, stored as they are.
import { concat, utf8 } from './bytes.js';

const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});

/** @param {Uint8Array} bytes */
function crc32(bytes) {
  let c = ~0;
  for (const b of bytes) c = TABLE[(c ^ b) & 255] ^ (c >>> 8);
  return ~c >>> 0;
}

/**
 * Numbers in little-endian order; each is [bytes, value].
 * @param {...[number, number]} fields
 */
function numbers(...fields) {
  const out = new DataView(new ArrayBuffer(fields.reduce((n, [size]) => n + size, 0)));
  let at = 0;
  for (const [size, value] of fields) {
    if (size === 2) out.setUint16(at, value, true);
    else out.setUint32(at, value, true);
    at += size;
  }
  return new Uint8Array(out.buffer);
}

/**
 * The archive of files, each {name, text}, of a time. Names are in ASCII.
 * @param {{name: string, text: string}[]} files
 * @param {Date} [time]
 */
export function zip(files, time = new Date()) {
  /** @type {[number, number][]} */
  const clock = [
    [2, (time.getHours() << 11) | (time.getMinutes() << 5) | (time.getSeconds() >> 1)],
    [2, ((time.getFullYear() - 1980) << 9) | ((time.getMonth() + 1) << 5) | time.getDate()],
  ];
  const parts = [];
  const directory = [];
  let at = 0;
  for (const file of files) {
    const [name, body] = [utf8(file.name), utf8(file.text)];
    /** @type {[number, number][]} */
    const facts = [
      [2, 20],
      [2, 0x800],
      [2, 0],
      ...clock,
      [4, crc32(body)],
      [4, body.length],
      [4, body.length],
      [2, name.length],
      [2, 0],
    ];
    const head = numbers([4, 0x04034b50], ...facts);
    directory.push(concat(numbers([4, 0x02014b50], [2, 20], ...facts, [2, 0], [2, 0], [2, 0], [4, 0], [4, at]), name));
    parts.push(head, name, body);
    at += head.length + name.length + body.length;
  }
  const index = concat(...directory);
  return concat(
    ...parts,
    index,
    numbers([4, 0x06054b50], [2, 0], [2, 0], [2, files.length], [2, files.length], [4, index.length], [4, at], [2, 0]),
  );
}
