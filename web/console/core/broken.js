// @ts-check
// What happens when drawing fails: what is on the page then may be older than what was found since,
// or half of it, so all of it goes, and with it every green mark.

let broken = false;

/**
 * Gives the page up. It is made without the library that draws the others, which may be what fails.
 * @param {unknown} reason
 */
function giveUp(reason) {
  if (broken) return;
  broken = true;
  /** @param {string} name @param {string} text @param {Record<string, string>} [attributes] */
  const element = (name, text, attributes = {}) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  };
  const again = element('button', 'Load this page again', { type: 'button', class: 'button primary' });
  again.addEventListener('click', () => location.reload());
  const page = element('main', '', { class: 'page broken', role: 'alert', 'data-broken': '' });
  page.append(
    element('h1', 'This page failed', { tabindex: '-1' }),
    element('p', 'Nothing that it showed counts: it may be from before what failed. What was read, such as an answer ' +
      'of the server, may have caused this. Load the page again; if it fails again, use attestd check.'),
    element('p', String(/** @type {any} */ (reason)?.message ?? reason).slice(0, 300), { class: 'small muted' }),
    again,
  );
  document.title = 'Failed · attestd';
  document.body.replaceChildren(page);
}

/** Gives the page up at the first exception that nobody has caught. */
export function giveUpOnFailure() {
  // Failed loads of files come here too, without an error; who asked for one says so in its place.
  addEventListener('error', (event) => { if (event.error) giveUp(event.error); });
  addEventListener('unhandledrejection', (event) => { giveUp(event.reason); });
}
