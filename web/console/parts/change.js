// @ts-check
// One change of the control log in a line: what, when, by whom, and whether its record holds.
import { html } from '../vendor/preact-htm.js';
import { timeText } from '../core/format.js';
import { href } from '../core/router.js';
import { visible } from '../lib/visible.js';
import { By } from './by.js';
import { ControlWords } from './control_words.js';
import { RowMark } from './row_mark.js';

/**
 * change: of core/control_log.js, checked; judge: of the key that it was checked with. withBy:
 * whether it says who made the change.
 * @param {{change: ControlChange, assess: Assess, withBy?: boolean}} props
 */
export function Change({ change: { record, by, ok, flaw }, assess, withBy = true }) {
  const { index, timestamp, actionType: action, inner, source } = record;
  const verdict = assess(ok, { log: 'control', index });
  return html`
    <li class="change-line" data-control=${index} data-action=${visible(action)} data-check=${verdict.tone}>
      <a href=${href('control', index)}><code>#${index}</code></a>
      <div><${ControlWords} change=${{ action, inner, source }} />
        <div class="muted small">
          <span class="nowrap" title=${timestamp}>${timeText(timestamp, 16)}${withBy && ','}</span>
          ${withBy && html` <span class="nowrap">by <${By} by=${by} /></span>`}</div>
        ${!ok && html`<p class="small bad-text">${flaw}</p>`}</div>
      <${RowMark} of=${verdict} />
    </li>`;
}
