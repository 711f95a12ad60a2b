// Keys that are made in the page sign what every checker verifies, whichever engine made them.
import assert from 'node:assert/strict';
import test from 'node:test';
import { utf8 } from '../console/lib/bytes.js';
import { publicKey, verify } from '../console/lib/ed25519.js';
import { fallback, newSigningKey } from '../console/lib/ed25519_sign.js';

for (const [name, make] of Object.entries({ 'the browser’s own': newSigningKey, '@noble/ed25519': fallback })) {
  test(`a key of ${name} signs`, async () => {
    const { raw, sign } = await make();
    const key = await publicKey(raw);
    const signature = await sign(utf8('message'));
    assert.equal(signature.length, 64);
    assert.ok(await verify(key, signature, utf8('message')));
    assert.ok(!(await verify(key, signature, utf8('other'))));
    assert.notDeepEqual((await make()).raw, raw);
  });
}
