// @ts-check
// A call as one line: the tool, what was asked of it, and after an arrow what came of it. A command
// and a path look like what they are.
import { html } from '../vendor/preact-htm.js';
import { DecisionWord } from './decision.js';
import { withText } from './text.js';

/**
 * What was asked: of a path the directory is muted, and the file stands out.
 * @param {{words: Pick<CallWords, 'what' | 'kind'>}} props
 */
export function Asked({ words: { what, kind } }) {
  const cut = kind === 'file' ? what.lastIndexOf('/', what.length - 2) + 1 : 0;
  return html`<code class="asked asked-${kind}">${cut > 0
    && html`<span class="asked-folder">${withText(what.slice(0, cut))}</span>`}<span>${withText(what.slice(cut))}</span>
    </code>`;
}

/**
 * An outcome as a word. A denial and a failure stand out by their form and in no colour: that is
 * for what was checked here.
 * @param {{is: string, says?: string}} props
 */
export const Outcome = ({ is, says = is }) => html`<span class="outcome outcome-${is}">${says}</span>`;

/**
 * words: of core/call_words.js. action: the name of the record's action where a column beside has
 * it, so that it is not repeated.
 * @param {{words: CallWords, action?: string}} props
 */
export function CallLine({ words, action = '' }) {
  const { tool, what, outcome, why, output, decided } = words;
  const after = why || output;
  const came = outcome && outcome !== 'requested' && html`
    <span class="call-came"><span class="visually-hidden">, then</span>
      ${' '}<${Outcome} is=${outcome} />
      ${after && html`<span class=${why ? 'call-why' : 'call-output'}>
        <span class="visually-hidden">:</span>${' '}${withText(after)}</span>`}</span>`;
  return html`<span class="call-line">
    ${tool && html`<span class="call-tool ${tool === action ? 'call-action' : ''}">${withText(tool)}</span>`}
    ${what && html` <${Asked} words=${words} />`}
    ${decided && decided.verdict !== 'allow' && html` <span><${DecisionWord} of=${decided} /></span>`}${came}</span>`;
}
