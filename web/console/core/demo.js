// @ts-check
// The demonstration: a company that is filled with a day's work of some agents, by the script that
// "attestd demo" plays too.
import { having, json, list, read, string } from '../lib/form.js';
import { canonical } from '../lib/jcs.js';
import { member } from '../lib/json.js';
import { companyCreated } from './answers.js';
import { call } from './api.js';
import { NOTHING } from './asked.js';
import { signIn } from './session.js';

const COMPANY = 'demo';
const WEEK = 7 * 24 * 3_600_000;

const scriptForm = list(having({ does: string, call: string }, { body: json, keep: list(list(string, 2)) }));

/**
 * Registers a company, fills it and signs in to it. say is told what each step does; the result is
 * the company's API key.
 * @param {(does: string) => void} say
 */
export async function playDemo(say) {
  const script = read(scriptForm, await (await fetch('/demo.json')).text(), 'demo.json');
  say('registers the company');
  const { apiKey } = await call(companyCreated, 'POST', '/v1/companies', {
    asked: { companyId: COMPANY },
    body: { companyId: COMPANY },
  });
  const headers = { Authorization: `Bearer ${apiKey}` };
  const kept = new Map([['company', COMPANY], ['inAWeek', new Date(Date.now() + WEEK).toISOString()]]);
  /** @param {string} text */
  const filled = (text) => text.replace(/\{([A-Za-z]+)\}/g, (whole, name) => kept.get(name) ?? whole);
  for (const { does, call: route, body, keep = [] } of script) {
    say(does);
    const [method, path] = filled(route).split(' ');
    const { node, source } = await call(json, method, path, {
      asked: NOTHING,
      headers,
      ...(body && { body: JSON.parse(filled(canonical(body.node))) }),
    });
    for (const [name, from] of keep) {
      const value = member(node, from);
      if (value) kept.set(name, string(value, source, from));
    }
  }
  await signIn(apiKey, false);
  return apiKey;
}
