// @ts-check
// The decision in the record of a request: what the policies said of it. The record's signature
// covers it; the evaluation of the policies is not repeated here.
import { html } from '../vendor/preact-htm.js';
import { timeText } from '../core/format.js';
import { table } from '../lib/table.js';
import { visible } from '../lib/visible.js';
import { JSONView } from './json_view.js';
import { Text } from './text.js';

/** @type {Record<Decision['verdict'], string>} */
export const VERDICTS = table({ allow: 'allowed', deny: 'denied', ask: 'approval needed' });

/**
 * By what it was decided: the policies, or the code where none of them did.
 * @param {Decided} decision
 */
const byOf = ({ by, code = '' }) => (by.length ? `by ${by.join(', ')}` : code);

/**
 * The verdict as a word, and by which policies. What was not allowed has the tone of an exception.
 * @param {{of: Decided}} props
 */
export const DecisionWord = ({ of }) => html`
  <span class=${of.verdict === 'allow' ? '' : 'warn-text'} title=${visible(`${VERDICTS[of.verdict]} ${byOf(of)}`)}>
    ${VERDICTS[of.verdict]}</span>${byOf(of) && html`${' '}<span class="muted">${visible(byOf(of))}</span>`}`;

/**
 * @param {{name: string, of?: string | string[]}} props
 */
const Fact = ({ name, of }) => of !== undefined && html`
  <dt>${name}</dt><dd><${Text} of=${typeof of === 'string' ? of : of.join(', ')} /></dd>`;

/**
 * All of a decision, with what it depended on.
 * @param {{of: Decision}} props
 */
export function DecisionView({ of }) {
  const { policies, revision, errors, passport, approval, code, context } = of;
  return html`
    <section class="stack tight decision" aria-label="Decision"><h3>Decision</h3>
      <p><strong><${DecisionWord} of=${of} /></strong></p>
      <dl class="facts">
        <${Fact} name="code" of=${code} />
        <${Fact} name="policies that erred" of=${errors} />
        <${Fact} name="policies" of=${`revision ${revision}, ${policies}`} />
        <${Fact} name="passport" of=${passport} />
        <${Fact} name="approval" of=${approval} />
        <${Fact} name="door" of=${context.door} />
        <dt>decided at</dt><dd title=${visible(context.time)}>${timeText(context.time, 23)}</dd>
        <${Fact} name="groups" of=${context.groups} />
        <${Fact} name="scopes" of=${context.scopes} />
        <${Fact} name="delegation" of=${context.delegation} />
        <${Fact} name="person" of=${context.person} />
        <${Fact} name="signed" of=${context.signed ? 'by a key of the agent' : 'by no key of the agent'} />
      </dl>
      ${context.details && html`<${JSONView} ...${context.details} what="authorization details" />`}
      <p class="small muted">The company signed this decision with the record. The policies are not evaluated again
        here: attestd check does that.</p>
    </section>`;
}
