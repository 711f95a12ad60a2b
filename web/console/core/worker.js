// Starts the verification worker. Trusted Types asks for a policy here; it admits this one script and nothing else.
const SCRIPT = '/verify_worker.js';

const policy = globalThis.trustedTypes?.createPolicy('worker', {
  createScriptURL(url) {
    if (url !== SCRIPT) throw new TypeError('not the verification worker');
    return url;
  },
});

export const startWorker = () => new Worker(policy ? policy.createScriptURL(SCRIPT) : SCRIPT, { type: 'module' });
