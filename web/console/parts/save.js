// @ts-check
// Files that the reader keeps.
const HELD = 10000; // ms; a browser reads what it saves some time after the click

/**
 * Saves a text or a Blob under a name, as the browser saves downloads.
 * @param {string} name
 * @param {string} type
 * @param {BlobPart} content
 */
export function save(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), HELD);
}
