// @ts-check
// What the service's answers must be. A call names one of these forms, and gets what it names and
// nothing else.
import {
  boolean,
  hash,
  having,
  integer,
  list,
  oneOf,
  rawKey,
  signature,
  string,
  stringThat,
  timestamp,
} from '../lib/form.js';
import { member } from '../lib/json.js';
import { recordForm } from '../lib/record.js';
import { domainOf } from '../lib/spiffe.js';

export const nothing = () => undefined; // where that it succeeded is all that matters

/**
 * What is cached of a company is found by its ID: it holds no space, nor anything else that would
 * make another entry of it.
 * @type {Form<string>}
 */
const companyId = stringThat((s) => /^[A-Za-z0-9._-]{1,128}$/.test(s), 'the ID of a company');

const suspended = having({ since: timestamp, reason: string });

/**
 * Of what a company says of itself, whether the demonstration has made it.
 * @type {Form<{demo: boolean}>}
 */
const metadata = (node) => {
  const madeBy = member(node, 'madeBy');
  return { demo: madeBy?.type === 'string' && madeBy.value === 'attestd demo' };
};
export const company = having({ companyId, spiffeId: string }, { suspended, metadata });
export const companyCreated = having({ companyId, apiKey: string });
const rotation = having({ statement: string, oldSignature: signature, newSignature: signature });
const controlLog = having({
  log: oneOf('control'),
  origin: string,
  keys: list(having({ kid: string, fromIndex: integer }, { rotation })),
});
export const publishedKeys = having({
  companyId,
  spiffeId: string,
  origin: string,
  keys: list(
    having(
      { kid: string, fingerprint: string, pem: string, jwk: having({ x: rawKey }), fromIndex: integer },
      { endedAt: timestamp, compromisedAt: timestamp, rotation },
    ),
  ),
}, { logs: list(controlLog) });
export const issuerMetadata = having({ issuer: string });
export const tokenKeys = having({ keys: list(having({ kid: string, alg: string })) });
export const discovery = having({
  company_id: string,
  issuer: stringThat((s) => domainOf(s) !== undefined, 'the SPIFFE ID of an issuer'),
  passport_format: having({ audience: string }),
});

const verdict = { valid: boolean };
const more = { merkleRoot: hash, failedAtIndex: integer, error: string };
/**
 * @template {{valid: boolean, merkleRoot?: string, failedAtIndex?: number, error?: string}} T
 * @param {Form<T>} form
 * @returns {Form<T & ChainVerdict>}
 */
const whole =
  (form) =>
  (node, source, name) => {
    const said = form(node, source, name);
    if (said.valid ? said.merkleRoot === undefined : said.failedAtIndex === undefined)
      throw new Error('the server’s verdict names neither a chain root nor a failure');
    return /** @type {T & ChainVerdict} */ (said);
  };
export const chainVerdict = whole(having(verdict, more));
export const streamMessage = whole(having({ type: oneOf('record'), record: recordForm, ...verdict }, more));

export const passportIssued = having({ agentId: string, passport: string, expiresIn: integer });
export const passportRotated = having({ agentId: string, passport: string, rotatedFrom: string });
export const passportRevoked = having({ jti: string });

export const keyRotated = having({ fingerprint: string, index: integer });
export const keyCreated = having({ key: string });
export const clientCreated = having({ clientId: string, clientSecret: string });

export const failure = having({}, { error: string, code: string, line: integer, column: integer });
