// Checks each line of standard input, base64 of a report, and says its verdict and code. The Go
// tests compare this with attestd/evidence.
import { createInterface } from 'node:readline';
import { checkReport, linesOf } from '../console/lib/report.js';

for await (const line of createInterface({ input: process.stdin })) {
  const { verdict, code } = await checkReport(linesOf(new Blob([Buffer.from(line, 'base64')]).stream()), {});
  process.stdout.write(`${verdict} ${code}\n`);
}
