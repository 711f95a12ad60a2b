// @ts-check
// The service's evidence of one record, and its report of a period, as they are saved: both must be
// of what was asked for.
import { having, integer, oneOf, read, string, timestamp } from '../lib/form.js';
import { callText } from './api.js';
import { needingPayload } from './archives.js';
import { mustFit, mustName } from './asked.js';
import { signedIn } from './session.js';

const evidenceForm = having({
  companyId: string,
  log: oneOf('actions', 'control'),
  record: having({ index: integer }),
});
const reportForm = having({ companyId: string, from: timestamp, to: timestamp });

/**
 * The service's evidence of a record, as it came.
 * @param {number} index
 * @param {LogName} log
 * @param {CallOptions} [options]
 */
export const evidenceText = (index, log, options) =>
  needingPayload(index, () => callText('GET', `/v1/evidence/${index}?log=${log}`, options));

/**
 * {name, text}: the evidence file of a record of the company that is signed in, and a name for it.
 * @param {number} index
 * @param {LogName} log
 * @param {CallOptions} [options]
 */
export async function evidenceOf(index, log, options) {
  const { companyId } = signedIn().company;
  const text = await evidenceText(index, log, options);
  const found = read(evidenceForm, text, 'evidence');
  mustName({ companyId, log }, found);
  mustName({ index }, found.record);
  return { name: `evidence-${companyId}-${log === 'control' ? 'control-' : ''}${index}.json`, text };
}

/**
 * Throws where the first line of a report is not that of a period of a company, each end of it
 * where one was asked for.
 * @param {string} line
 * @param {string} companyId
 * @param {{since?: string, until?: string}} period
 */
export function mustBeReport(line, companyId, { since, until }) {
  const { from, to, ...found } = read(reportForm, line, 'report');
  mustName({ companyId }, found);
  mustFit(
    (!since || from === since) && (!until || to === until),
    `it is the report of another period, from ${from} to ${to}`,
  );
}
