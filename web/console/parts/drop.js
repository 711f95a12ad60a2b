// @ts-check
// A place to drop or choose one small file.
import { text } from '../lib/bytes.js';
import { kindIs, kindOf } from '../lib/file_kind.js';
import { html, useRef, useState } from '../vendor/preact-htm.js';
import { Notice } from './basic.js';
import { Text } from './text.js';

const LARGEST = 8 << 20;

/**
 * A file of at most largest bytes goes to onBytes, or its text to onText, each with its name. One
 * of attestd’s files that is of no kind in reads goes nowhere: the place says what it is and who
 * checks it, and calls onOther.
 * @param {{what: string, reads?: FileKind[], onText?: (text: string, name: string) => void,
 *   onBytes?: (bytes: Bytes, name: string) => void, onOther?: () => void, largest?: number,
 *   children?: Child}} props
 */
export function Drop({ what, reads = [], onText, onBytes, onOther, largest = LARGEST, children }) {
  const [over, setOver] = useState(false);
  const [error, setError] = useState('');
  const [other, setOther] = useState(/** @type {{name: string, kind: FileKind} | null} */ (null));
  const input = useRef(null);
  /** @param {File} [file] */
  const readDropped = async (file) => {
    setOver(false);
    setError('');
    setOther(null);
    if (!file) return;
    if (file.size > largest) return setError(`That file is larger than ${largest >> 20} MiB.`);
    const bytes = new Uint8Array(await file.arrayBuffer()); // file.text() would put U+FFFD for what is no UTF-8
    const kind = kindOf(bytes);
    if (kind && !reads.includes(kind)) {
      setOther({ name: file.name, kind });
      return onOther?.();
    }
    if (onBytes) return onBytes(bytes, file.name);
    let content;
    try {
      content = text(bytes);
    } catch {
      return setError('That file is not UTF-8 text.');
    }
    onText?.(content, file.name);
  };
  return html`
    <div class="drop ${over ? 'over' : ''}"
         onDragOver=${(e) => { e.preventDefault(); setOver(true); }}
         onDragLeave=${() => setOver(false)}
         onDrop=${(e) => { e.preventDefault(); readDropped(e.dataTransfer?.files[0]); }}>
      ${children}
      <button type="button" class="button" onClick=${() => input.current.click()}>Choose ${what}</button>
      <input ref=${input} type="file" hidden aria-label="Choose ${what}" onChange=${(e) => {
        readDropped(e.target.files?.[0]);
        e.target.value = '';
      }} />
      ${error && html`<p role="alert">${error}</p>`}
      ${other && html`<div data-other=${other.kind}><${Notice}>
        <${Text} of=${`${other.name} is ${kindIs(other.kind)}.`} /><//></div>`}
    </div>`;
}
