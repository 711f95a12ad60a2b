// @ts-check
// The demonstration: a company whose records tell of a week of five agents, by the script that
// "attestd demo" plays too (package demo of the service says how). The keys of agents, of an
// identity provider and of a witness are made in this page and go with it.
import { base64url, utf8 } from '../lib/bytes.js';
import { boolean, exactly, having, json, list, read, string, tuple } from '../lib/form.js';
import { canonical } from '../lib/jcs.js';
import { member, parse } from '../lib/json.js';
import { agentSPIFFE } from '../lib/spiffe.js';
import { statementHash } from '../lib/statement.js';
import { sha256, sha256hex } from '../lib/sha256.js';
import { newSigningKey } from '../lib/ed25519_sign.js';
import { confirmAgentKey } from './agent_trust.js';
import { APIError, call } from './api.js';
import { NOTHING } from './asked.js';
import { cosigner } from './demo_witness.js';
import { clock, session, signIn, signedIn } from './session.js';
import { confirm } from './trust.js';

const DEMOS = 20; // names of companies that are tried
const DAY = 24 * 3_600_000;
const ASSERTION = 300; // seconds for which an assertion is good
const AGAIN = 100; // ms until something that was not there yet is asked for again
const TIMES = 50;

const scriptForm = list(
  having({ does: string }, {
    call: string,
    as: string,
    body: json,
    keep: list(tuple(string, string)),
    until: string,
    key: string,
    enrol: string,
    assertion: exactly({ key: string, type: string, claims: json }),
    cosign: boolean,
  }),
);

/**
 * Calls work() until it gives something other than null.
 * @template T
 * @param {() => Promise<T | null>} work
 */
async function repeated(work) {
  for (let i = 0; i < TIMES; i++) {
    const found = await work();
    if (found !== null) return found;
    await new Promise((resolve) => { setTimeout(resolve, AGAIN); });
  }
  return null;
}

/**
 * A time of the last week from Monday to Friday of which the Friday is over, in UTC.
 * @param {string} day
 * @param {string} clock
 */
function weekTime(day, clock) {
  const today = Math.floor(Date.now() / DAY) * DAY;
  let friday = today - DAY;
  while (new Date(friday).getUTCDay() !== 5) friday -= DAY;
  const [hours, minutes] = clock.split(':').map(Number);
  const back = 4 - ['Mon', 'Tue', 'Wed', 'Thu', 'Fri'].indexOf(day);
  return new Date(friday - back * DAY + (hours * 60 + minutes) * 60_000).toISOString();
}

/** The server's clock, so that it takes what is signed here where this computer's is wrong. */
const seconds = () => Math.floor(Date.now() / 1000 + clock.get().offset);
const unique = () => crypto.getRandomValues(new Uint32Array(4)).join('-');

/** @param {string} value */
const inJSON = (value) => JSON.stringify(value).slice(1, -1);

/** A key pair as what is signed with it names it. */
async function newKey() {
  const { raw, sign } = await newSigningKey();
  const jwk = { crv: 'Ed25519', kty: 'OKP', x: base64url(raw) };
  const thumbprint = base64url(await sha256(utf8(JSON.stringify(jwk)))); // RFC 7638
  /**
   * A compact JWS.
   * @param {object} header
   * @param {object} claims
   */
  const jws = async (header, claims) => {
    const signed = [{ alg: 'EdDSA', ...header }, claims].map((part) => base64url(utf8(JSON.stringify(part)))).join('.');
    return `${signed}.${base64url(await sign(utf8(signed)))}`;
  };
  return { jwk, thumbprint, jws };
}

class Player {
  /** @type {Map<string, string>} */
  kept = new Map([['inAQuarter', new Date(Date.now() + 90 * DAY).toISOString()]]);

  /** @type {Map<string, Awaited<ReturnType<typeof newKey>>>} */
  keys = new Map(); // by name

  /** @type {Map<string, Awaited<ReturnType<typeof newKey>> & {log: string}>} */
  agents = new Map(); // that have a key of their own

  /** @type {Map<string, {seq: number, prev?: string}>} */
  places = new Map(); // that come next, by agent and session

  /** @type {ReturnType<typeof cosigner> | undefined} */
  witness;

  /**
   * A text with values in place of their names: {name} is one that was kept, {Mon 09:12} a time of
   * the week. escape is how a value is written there.
   * @param {string} text
   * @param {(value: string) => string} [escape]
   */
  filled = (text, escape = (value) => value) =>
    text.replace(/\{([A-Za-z]+)(?: ([0-2][0-9]:[0-5][0-9]))?\}/g, (whole, name, clock) => {
      const value = clock ? weekTime(name, clock) : this.kept.get(name);
      return value === undefined ? whole : escape(value);
    });

  /**
   * Plays the first step, under the first name that no company has.
   * @param {ReturnType<typeof scriptForm>[number]} step
   */
  async register(step) {
    for (let n = 1; ; n++) {
      this.kept.set('company', n === 1 ? 'demo' : `demo-${n}`);
      try {
        return await this.play(step);
      } catch (error) {
        if (!(error instanceof APIError && error.status === 409) || n === DEMOS) throw error;
      }
    }
  }

  /** @param {ReturnType<typeof scriptForm>[number]} step */
  async play({ call: route, as = 'key', body, keep = [], until, key, enrol, assertion, cosign }) {
    if (key) return this.makeKey(key);
    if (enrol) return this.enrol(enrol);
    if (assertion) return this.assert(assertion);
    if (cosign) return this.cosign();
    const [method, path] = this.filled(route ?? '').split(' ');
    const credential = this.kept.get(as);
    const options = {
      asked: NOTHING,
      ...(credential && { headers: { Authorization: `Bearer ${credential}` } }),
      ...(body && { body: await this.signed(JSON.parse(this.filled(canonical(body.node), inJSON))) }),
    };
    const answer = () => call(json, method, path, options);
    if (until) {
      await repeated(async () => {
        const found = member((await answer()).node, until);
        return found?.type === 'array' && found.items.length ? found : null;
      }); // a busy server will find it later
      return;
    }
    const { node, source } = await answer();
    for (const [name, from] of keep) {
      const value = member(node, from);
      if (value) this.kept.set(name, string(value, source, from));
    }
  }

  /** @param {string} name */
  async makeKey(name) {
    const made = await newKey();
    this.keys.set(name, made);
    this.kept.set(name, made.jwk.x).set(`${name}Id`, made.thumbprint);
  }

  /** @param {string} agentId */
  async enrol(agentId) {
    const made = await newKey();
    const path = `/v1/agents/${agentId}/keys`;
    const proof = await made.jws({ typ: 'dpop+jwt', jwk: made.jwk }, {
      jti: unique(),
      htm: 'POST',
      htu: `${location.origin}${path}`,
      iat: seconds(),
    });
    const { log } = await call(having({ thumbprint: string, log: string }), 'POST', path, {
      asked: { thumbprint: made.thumbprint },
      headers: { Authorization: `Bearer ${this.kept.get('key')}`, DPoP: proof },
      body: { jwk: made.jwk, label: 'demo' },
    });
    this.agents.set(agentId, { ...made, log });
  }

  /** @param {{key: string, type: string, claims: JSONText}} of */
  async assert({ key, type, claims }) {
    const made = this.keys.get(key);
    if (!made) throw new Error(`There is no key ${key}.`);
    const iat = seconds();
    this.kept.set('assertion', await made.jws({ typ: type, kid: made.thumbprint }, {
      iat,
      exp: iat + ASSERTION,
      jti: unique(),
      ...JSON.parse(this.filled(canonical(claims.node), inJSON)),
    }));
  }

  async cosign() {
    this.witness ??= cosigner({ Authorization: `Bearer ${this.kept.get('key')}` });
    const found = await repeated(await this.witness);
    if (!found) throw new Error('The server signs no checkpoint of all records.');
    this.kept.set('checkpoint', found.checkpoint).set('witness', found.vkey);
  }

  /**
   * A body in which the sessions of a batch are replaced by what the agents sign.
   * @param {{records?: DemoItem[]}} body
   */
  async signed(body) {
    if (!body.records) return body;
    const records = [];
    for (const { session: sid, end, ...item } of body.records)
      records.push(sid ? { ...item, statement: await this.statement(item, sid, end) } : item);
    return { ...body, records };
  }

  /**
   * What an agent signs of a record, at the next place of a session.
   * @param {DemoItem} item
   * @param {string} sid
   * @param {boolean} [end]
   */
  async statement({ agentId, actionType, payload }, sid, end) {
    const agent = this.agents.get(agentId);
    if (!agent) throw new Error(`${agentId} has no key of its own.`);
    const name = `${agentId} ${sid}`;
    const place = this.places.get(name) ?? { seq: 0 };
    const aud = this.kept.get('spiffeId');
    const action = { actionType, agentId, companyId: this.kept.get('company'), payload };
    const made = await agent.jws({ typ: 'agent-statement+jwt', kid: agent.thumbprint }, {
      iss: agentSPIFFE(String(aud), agentId),
      aud,
      log: agent.log,
      iat: seconds(),
      jti: unique(),
      action_hash: await sha256hex(canonical(parse(JSON.stringify(action)))),
      sid,
      ...place,
      ...(end && { end }),
    });
    this.places.set(name, { seq: place.seq + 1, prev: await statementHash(made) });
    return made;
  }
}

/**
 * Registers a company, fills it and signs in to it. say is told what each step does; the result is
 * the company's API key.
 * @param {(does: string) => void} say
 */
export async function playDemo(say) {
  const script = read(scriptForm, await (await fetch('/demo.json')).text(), 'demo.json');
  const player = new Player();
  for (const [i, step] of script.entries()) {
    say(step.does);
    await (i ? player.play(step) : player.register(step));
  }
  const { kept, agents } = player;
  const apiKey = kept.get('key') ?? '';
  const companyId = kept.get('company') ?? '';
  await signIn(apiKey, false);
  // This page has registered the company and made the agents' keys: it need not be told which they
  // are. A server that names another key by now is not believed.
  confirm(signedIn().key, kept.get('fingerprint') ?? '');
  for (const [agentId, { thumbprint }] of agents)
    confirmAgentKey({ companyId, agentId }, thumbprint, thumbprint);
  return apiKey;
}
