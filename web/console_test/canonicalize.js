// Canonicalizes each line of standard input: base64 of a JSON text in, "ok <canonical form>" or
// "refused" out. The Go tests compare this with attestd/crypto/jcs.
import { createInterface } from 'node:readline';
import { text } from '../console/lib/bytes.js';
import { canonicalize } from '../console/lib/jcs.js';

const MAX_DEPTH = 128;

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    answer = 'ok ' + canonicalize(text(Buffer.from(line, 'base64')), MAX_DEPTH);
  } catch {
    answer = 'refused';
  }
  process.stdout.write(answer + '\n');
}
