// @ts-check
// A report as files: the page that was shown, without anything that runs or loads, and the data
// that it is about.
import { save } from '../parts/save.js';

/** @param {string} text */
const escape = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

// All rules of this page; those that match nothing there do no harm.
const rules = () =>
  [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules].map((rule) => rule.cssText)).join('\n');

// The report as it is shown. Links lead into the console, so only their text remains; headings
// begin with the first.
function article() {
  const copy = /** @type {HTMLElement} */ (document.getElementById('report')?.cloneNode(true));
  for (const link of copy.querySelectorAll('a')) link.replaceWith(...link.childNodes);
  for (const level of [2, 3]) {
    for (const heading of copy.querySelectorAll(`h${level}`)) {
      const higher = document.createElement(`h${level - 1}`);
      higher.append(...heading.childNodes);
      heading.replaceWith(higher);
    }
  }
  return copy.outerHTML;
}

/**
 * Saves the report that is shown as one page in light colours.
 * @param {string} name
 */
export function savePage(name) {
  save(name, 'text/html', `<!doctype html>
<html lang="en" data-theme="light">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${escape(document.title)}</title>
<style>
${rules()}
</style>
</head>
<body class="report-file">
<main>${article()}</main>
</body>
</html>
`);
}

/**
 * Saves what came from the server, byte for byte: anybody checks it with attestd report.
 * @param {string} name
 * @param {Blob} blob
 */
export const saveData = (name, blob) => save(name, 'application/x-ndjson', blob);
