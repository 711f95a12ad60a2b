// @ts-check
// Starts workers. Trusted Types asks for a policy here; it admits our own scripts and nothing else.
const SCRIPTS = ['/check_worker.js', '/report_worker.js', '/verify_worker.js'];

const policy = globalThis.trustedTypes?.createPolicy('worker', {
  createScriptURL(url) {
    if (!SCRIPTS.includes(url)) throw new TypeError('not a worker of the console');
    return url;
  },
});

/** @param {string} script */
export const startWorker = (script) => new Worker(policy ? policy.createScriptURL(script) : script, { type: 'module' });

/**
 * Why a worker failed, as an Error. Of one that did not start the browser says nothing: its script
 * is asked for once more to find out.
 * @param {{message?: string}} event
 * @param {string} script
 */
export async function whyFailed({ message }, script) {
  if (message) return new Error(`A verification worker failed: ${message}`);
  let why = 'the browser, or an extension of it, may forbid workers';
  try {
    const response = await fetch(script, { cache: 'no-store', credentials: 'omit', redirect: 'manual' });
    const type = response.headers.get('Content-Type') ?? '';
    if (!response.ok) why = `its script cannot be loaded (${response.status || 'a redirect'})`;
    else if (!type.includes('javascript'))
      why = `something else answered in place of the server, perhaps a proxy (${type || 'no type'})`;
  } catch {
    why = 'the server does not answer';
  }
  return new Error(`A verification worker did not start: ${why}.`);
}
