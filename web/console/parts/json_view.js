// @ts-check
// A JSON value as it was written: laid out over lines, but every number, string and key in its own
// spelling.
import { html, useMemo, useState } from '../vendor/preact-htm.js';
import { visible } from '../lib/visible.js';
import { CopyButton } from './basic.js';
import { withText } from './text.js';

const LARGE = 40000; // characters beyond which the text is shown plainly, and only its beginning at first

/**
 * Pieces of text, each [class, text].
 * @param {JSONNode} node
 * @param {string} source
 * @param {number} indent
 * @param {[string, string][]} out
 * @returns {number}
 */
function layout(node, source, indent, out) {
  const pad = '\n' + '  '.repeat(indent + 1);
  const close = '\n' + '  '.repeat(indent);
  if (node.type === 'object') {
    if (!node.members.length) return out.push(['', '{}']);
    out.push(['', '{']);
    node.members.forEach((m, i) => {
      out.push(['', (i ? ',' : '') + pad], ['key', source.slice(m.start, m.end)], ['', ': ']);
      layout(m.value, source, indent + 1, out);
    });
    return out.push(['', close + '}']);
  }
  if (node.type === 'array') {
    if (!node.items.length) return out.push(['', '[]']);
    out.push(['', '[']);
    node.items.forEach((item, i) => {
      out.push(['', (i ? ',' : '') + pad]);
      layout(item, source, indent + 1, out);
    });
    return out.push(['', close + ']']);
  }
  return out.push(['', source.slice(node.start, node.end)]);
}

/**
 * node of json.js and the source it was parsed from.
 * @param {JSONText & {what: string}} props
 */
export function JSONView({ node, source, what }) {
  const [all, setAll] = useState(false);
  const raw = source.slice(node.start, node.end);
  const large = raw.length > LARGE;
  const pieces = useMemo(() => {
    /** @type {[string, string][]} */
    const out = [];
    if (!large) layout(node, source, 0, out);
    return out;
  }, [node, source]);
  return html`
    <div class="stack tight">
      <pre class="code" tabindex="0" aria-label=${visible(what)}>${
        large
          ? withText(all ? raw : `${raw.slice(0, LARGE)} …`)
          : pieces.map(([kind, text]) => (kind ? html`<span class=${kind}>${withText(text)}</span>` : withText(text)))
      }</pre>
      <div class="buttons">
        <${CopyButton} text=${raw} what=${what} label="Copy as sent" />
        ${large && !all
          && html`<button type="button" class="button quiet small" onClick=${() => setAll(true)}>
          Show all ${raw.length} characters</button>`}
      </div>
    </div>`;
}
