// @ts-check
// Who signed a record: the agent, or only the company, for any of its keys.
import { html } from '../vendor/preact-htm.js';
import { agentKeyState, agentTrust } from '../core/agent_trust.js';
import { href } from '../core/router.js';
import { useStore } from '../core/store.js';
import { isGreen, wordVerdict } from '../core/verdict.js';
import { wordsOf } from '../core/words.js';
import { visible } from '../lib/visible.js';
import { Badge, Icon, useResult } from './basic.js';
import { Text } from './text.js';

/** @type {WeakMap<LogRecord, Promise<Word>>} */
const known = new WeakMap();

/** @param {LogRecord} record */
function wordOf(record) {
  const before = known.get(record);
  if (before) return before;
  const found = wordsOf([record]).then(([word]) => {
    if (word.is === 'unknown') known.delete(record); // it may be known later
    return word;
  });
  known.set(record, found);
  return found;
}

/**
 * Who signed a record; null until that is known, and where nothing is asked.
 * @param {LogRecord | null} record
 */
export const useWord = (record) => useResult(async () => record && wordOf(record), [record]);

/**
 * A function that gives a word its tone; the component renders again when other keys of agents are
 * confirmed.
 */
export function useAgentTrust() {
  const state = useStore(agentTrust);
  /**
   * @param {Word} word
   * @param {Verdict} record
   */
  return (word, record) => {
    const keyState = agentKeyState(word, word.chain, state);
    return { ...wordVerdict(word, keyState, record), keyState };
  };
}

/**
 * A word in a few words.
 * @param {{tone: Tone, is: string, keyState: KeyState}} judged
 * @param {Word} word
 */
function saysOf({ tone, is, keyState }, { is: kind, reason, stolen }) {
  if (kind !== 'agent') return `${is}. ${reason}`;
  if (stolen) return is;
  if (keyState === 'other') return `${is} than those of the agent that you confirmed`;
  if (keyState === 'unconfirmed') return `${is}, with a key that you haven’t confirmed`;
  return isGreen(tone) ? is : `${is}, in a record that is not green`;
}

/**
 * An icon in the tone of a word.
 * @param {{word: Word, record: Verdict, judge: JudgeWord}} props
 */
export function WordIcon({ word, record, judge }) {
  const judged = judge(word, record);
  const says = visible(saysOf(judged, word));
  return html`<span class="word ${judged.tone}" data-word=${word.is} data-word-tone=${judged.tone} title=${says}>
    <${Icon} name=${word.is === 'company' ? 'keys' : word.is === 'agent' && judged.tone !== 'bad' ? 'signed'
      : word.is === 'unknown' ? 'info' : 'bad'} />
    <span class="visually-hidden">${says}, </span></span>`;
}

/**
 * The word of a record that is checked with others; nothing until it is known.
 * @param {{of: LogRecord, record: Verdict}} props
 */
export function WordOf({ of, record }) {
  const word = useWord(of);
  const judge = useAgentTrust();
  return word && html`<${WordIcon} ...${{ word, record, judge }} />`;
}

/**
 * Who signed a record, and how that is known.
 * @param {{of: LogRecord, record: Verdict}} props
 */
export function WordCard({ of, record }) {
  const word = useWord(of);
  const judge = useAgentTrust();
  if (!word) return html`<p class="small muted" role="status">Checking who signed it …</p>`;
  const { tone, is, keyState } = judge(word, record);
  return html`
    <section class="stack tight" aria-label="Signed by" data-word=${word.is} data-word-tone=${tone}>
      <div class="card-head"><h3>Signed by</h3><${Badge} tone=${tone}>${is}<//></div>
      ${word.is !== 'agent' ? html`
        <p class="small ${tone === 'bad' ? 'bad-text' : 'muted'}"><${Text} of=${word.reason} /></p>` : html`
        <p class="small">${keyState === 'confirmed' ? 'The agent’s own key signed this' : 'A key that the company ' +
          'enrolled for this agent signed this'}: <code><${Text} of=${word.reason} /></code></p>
        ${word.session && html`<p class="small muted">Step ${word.session.seq} of the session <code>
          <${Text} of=${word.session.sid} /></code>.</p>`}
        ${keyState !== 'confirmed' && html`<p class="small ${keyState === 'other' ? 'bad-text' : 'warn-text'}">
          ${keyState === 'other' ? 'It is none of the keys of this agent that you confirmed, and follows from none.'
            : 'The company can enrol a key for any agent.'}
          <a href=${href('agents', of.agentId)}>Compare its thumbprint</a> with the one that the agent’s machine
          shows.</p>`}`}
      ${word.notes.map(({ says, warns }) => html`<p class="small ${warns ? 'warn-text' : 'muted'}">
        <${Text} of=${says} /></p>`)}
    </section>`;
}
