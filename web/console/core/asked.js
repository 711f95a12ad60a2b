// @ts-check
// Whether an answer is to the question that was asked. A server that answers about something else,
// on purpose or by a cache between, must not be shown under the name that was asked for.
import { FormError } from '../lib/form.js';

/** @param {unknown} value */
const spelled = (value) => (value === undefined ? 'nothing' : JSON.stringify(value));

/**
 * Throws where an answer lacks one of some members, or has another value there: {agentId: 'bot'} is
 * an answer about that agent.
 * @param {object} asked
 * @param {object | undefined} given
 * @param {string} [what]
 */
export function mustName(asked, given, what = 'The server’s answer') {
  const answer = new Map(Object.entries(given ?? {})); // where nothing is read, nothing is named
  for (const [name, wanted] of Object.entries(asked)) {
    if (answer.get(name) !== wanted)
      throw new FormError(
        `${what} does not answer what was asked: it names ${spelled(answer.get(name))} as its ${name}, and not ` +
          `${spelled(wanted)}.`,
      );
  }
}

/**
 * For a list: each of its items must be what was asked for, by members as of mustName. What is
 * asked as '' or undefined is not asked.
 * @template {string} L
 * @param {L} list
 * @param {Record<string, unknown>} asked
 * @returns {(answer: {[K in L]: object[]}) => void}
 */
export const eachNames = (list, asked) => (answer) => {
  const wanted = Object.fromEntries(Object.entries(asked).filter(([, value]) => value !== undefined && value !== ''));
  answer[list].forEach((item, i) => mustName(wanted, item, `Entry ${i} of the server’s answer`));
};

/**
 * Throws where something else shows that an answer is about another thing.
 * @param {unknown} holds
 * @param {string} why
 * @returns {asserts holds}
 */
export const mustFit = (holds, why) => {
  if (!holds) throw new FormError(`The server’s answer does not answer what was asked: ${why}.`);
};

/** What no answer names: only the credential says whose it is. */
export const NOTHING = {};
