// @ts-check
// Whether the service can write, whether its head file and its witnesses keep up, and what they
// have found: of all companies together, by number alone.
import { having, integer, string } from '../lib/form.js';
import { visible } from '../lib/visible.js';
import { call } from './api.js';
import { NOTHING } from './asked.js';
import { plural } from './format.js';

/** @type {Form<ServiceState>} */
export const serviceState = having(
  { status: string },
  {
    headFile: string,
    tablesChanged: integer,
    rolledBack: integer,
    witnessAlarms: integer,
    witnessesBehind: integer,
    cosigner: string,
    callsDisobeyed: integer,
  },
);

/** @returns {Promise<ServiceState>} */
export const readService = () =>
  call(serviceState, 'GET', '/readyz', { asked: NOTHING }).catch((/** @type {TaskError} */ error) => ({
    status: error.status === 503 && error.code ? error.code : 'unknown',
  }));

/**
 * What of it needs a look, and the page that shows more.
 * @param {ServiceState} state
 * @returns {{words: string, page: string, argument?: string}[]}
 */
export function wordsOfService(state) {
  const { status, headFile, tablesChanged = 0, rolledBack = 0, witnessAlarms = 0, witnessesBehind = 0 } = state;
  const more = { page: 'reference', argument: 'getReadiness' };
  const all = [];
  if (status === 'unknown') all.push({ words: 'The state of the service could not be read', ...more });
  else if (status !== 'ready' && status !== 'degraded')
    all.push({ words: `The service writes nothing now: ${visible(status)}`, ...more });
  if (headFile === 'behind') all.push({ words: 'The service cannot write its head file', ...more });
  if (rolledBack)
    all.push({ words: `${plural(rolledBack, 'company', 'companies')} halted: a log was rolled back`, ...more });
  if (tablesChanged)
    all.push({ words: `${plural(tablesChanged, 'company', 'companies')} whose tables were changed`, ...more });
  if (witnessAlarms) all.push({ words: `${plural(witnessAlarms, 'log')} contested by a witness`, page: 'checkpoints' });
  if (witnessesBehind)
    all.push({
      words: `${plural(witnessesBehind, 'witness that does', 'witnesses that do')} not cosign every log`,
      page: 'checkpoints',
    });
  if (state.cosigner === 'behind') all.push({ words: 'The service, as a witness, cosigns nothing', ...more });
  return all;
}
