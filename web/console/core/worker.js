// Starts workers. Trusted Types asks for a policy here; it admits our own scripts and nothing else.
const SCRIPTS = ['/check_worker.js', '/verify_worker.js'];

const policy = globalThis.trustedTypes?.createPolicy('worker', {
  createScriptURL(url) {
    if (!SCRIPTS.includes(url)) throw new TypeError('not a worker of the console');
    return url;
  },
});

export const startWorker = (script) => new Worker(policy ? policy.createScriptURL(script) : script, { type: 'module' });

/** The error of a worker that did not start. A browser that forbids workers gives no reason. */
export const notStarted = ({ message }) => new Error(`A verification worker did not start${message ? `: ${message}` : '; the browser, or an extension of it, may forbid workers'}.`);
