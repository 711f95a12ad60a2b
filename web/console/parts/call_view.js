// @ts-check
// What a record says of a call, in full and in words: the command as a command, an edit as the
// lines that it removes and adds. The JSON of it is shown elsewhere.
import { html, useMemo } from '../vendor/preact-htm.js';
import { callParts } from '../core/call_parts.js';
import { callWords } from '../core/call_words.js';
import { plural } from '../core/format.js';
import { session } from '../core/session.js';
import { table } from '../lib/table.js';
import { CallLine } from './call_line.js';
import { DecisionView } from './decision.js';
import { DecisionRules } from './decision_rules.js';
import { withText } from './text.js';

const LINES = 400; // of a change that are shown
const LONG = 6000; // characters of a text that are shown
const ROW = 240; // characters of what was asked that the line above has already

/**
 * The lines of a change. Added and removed ones differ by their sign and not by the colours of a
 * verdict.
 * @param {{lines: DiffLine[]}} props
 */
function Change({ lines }) {
  const more = lines.length - LINES;
  return html`
    <pre class="code diff" tabindex="0" aria-label="Change">${lines.slice(0, LINES).map(([sign, line]) => (
      sign === '+' ? html`<ins><span class="sign">+ </span>${withText(line)}${'\n'}</ins>`
        : sign === '-' ? html`<del><span class="sign">− </span>${withText(line)}${'\n'}</del>`
          : html`<span><span class="sign">  </span>${withText(line)}${'\n'}</span>`))}</pre>
    ${more > 0 && html`<p class="small muted">${plural(more, 'more line')} in the JSON below.</p>`}`;
}

/**
 * A text of a call under its name.
 * @param {{name: string, text: string}} props
 */
const Part = ({ name, text }) => text && html`
  <div class="stack tight"><h3>${name}</h3>
    <pre class="code" tabindex="0" aria-label=${name}>${withText(text.slice(0, LONG))}${text.length > LONG && '…'}</pre>
    </div>`;

/** @type {Record<string, string>} */
const NAMES = table({ command: 'Command', prompt: 'Prompt' });

/**
 * What a record says of a call, where it is one, and the decision in it.
 * @param {{record: LogRecord, isCall: boolean, openRules?: boolean}} props
 */
export const CallView = ({ record, isCall, openRules }) => html`
  ${isCall && html`<${Words} record=${record} />`}
  ${record.decision && html`<${DecisionView} of=${record.decision} />`}
  ${record.decision && record.decision.by.length > 0 && session.get().company?.companyId === record.companyId
    && html`<${DecisionRules} of=${record.decision} open=${openRules} />`}`;

/** @param {{record: LogRecord}} props */
function Words({ record }) {
  const words = useMemo(() => callWords(record), [record]);
  const { kind, asked, changes, why, output } = useMemo(() => callParts(record), [record]);
  const name = NAMES[kind] ?? (asked.length > ROW ? 'Asked' : '');
  return html`
    <section class="stack tight call-view" aria-label="The call in words">
      <p class="call-head"><${CallLine} words=${{ ...words, why: '', output: '', decided: undefined }} /></p>
      <${Part} name="Why" text=${why} />
      ${name && html`<${Part} name=${name} text=${asked} />`}
      ${changes.map((lines) => html`<${Change} lines=${lines} />`)}
      <${Part} name="Output" text=${output} />
    </section>`;
}
