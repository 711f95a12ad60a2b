// @ts-check
// One call of a session, with its records.
import { html, useState } from '../vendor/preact-htm.js';
import { href } from '../core/router.js';
import { useSignedIn } from '../core/session.js';
import { entriesOf, nameOf } from '../core/session_calls.js';
import { CallLine } from '../parts/call_line.js';
import { Drawer } from '../parts/dialogs.js';
import { RecordView } from '../parts/record_view.js';
import { Text } from '../parts/text.js';

/**
 * A call with its records, one of them shown: beside the list where there is room, else over it.
 * @param {{call: SessionCall, index: string, wide?: boolean, onClose: () => void}} props
 */
export function OpenCall({ call, index, wide, onClose }) {
  const { key } = useSignedIn();
  const [shown, show] = useState(index);
  const entries = entriesOf(call);
  const { record } = entries.find((entry) => String(entry.record.index) === shown) ?? entries[0];
  const last = call.outcome ?? call.pending;
  const { outcome, why, output } = (last ?? entries[0]).words;
  const words = { ...entries[0].words, outcome, why, output };
  const body = html`
    <div class="open-call" data-open-call=${index}>
      <p class="call-head"><${CallLine} words=${words} /></p>
      <div class="buttons" role="group" aria-label="Records of this call">${entries.map(({ record: one }) => html`
        <button type="button" class="button small" aria-pressed=${one === record ? 'true' : 'false'}
          onClick=${() => show(String(one.index))}><${Text} of=${one.actionType || 'payload pruned'} /></button>`)}
        <a class="small" href=${href('records', record.index)}>Record ${record.index} in the log</a></div>
      <${RecordView} key=${record.index} record=${record} companyKey=${key} />
    </div>`;
  const title = nameOf(entries[0]);
  if (!wide) return html`<${Drawer} title=${title} onClose=${onClose}>${body}<//>`;
  return html`
    <aside class="call-beside" aria-label="The open call"
      onKeyDown=${(event) => event.key === 'Escape' && onClose()}>
      <div class="drawer-head"><h2><${Text} of=${title} /></h2>
        <button type="button" class="button small" onClick=${onClose}>Close</button></div>
      <div class="drawer-body" tabindex="0" role="region" aria-label="Records of the open call">${body}</div>
    </aside>`;
}
