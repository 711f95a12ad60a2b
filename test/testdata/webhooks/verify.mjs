// The official library of Standard Webhooks checks messages: those of the file that is named, each with its headers, its body as it came, the
// secrets and public keys that it must verify with, and one that it must not. What it says of v1a is said by Node itself, for the library knows v1 alone.
import { createPublicKey, verify } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Webhook } from 'standardwebhooks'

const prefix = Buffer.from('302a300506032b6570032100', 'hex') // of the SPKI form of an Ed25519 key (RFC 8410)

function asymmetric(publicKey, body, headers) {
  const raw = Buffer.from(publicKey.slice('whpk_'.length), 'base64')
  const key = createPublicKey({ key: Buffer.concat([prefix, raw]), format: 'der', type: 'spki' })
  const signed = Buffer.from(`${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`)
  return headers['webhook-signature'].split(' ').some((s) => {
    const [version, signature] = s.split(',')
    return version === 'v1a' && verify(null, signed, key, Buffer.from(signature, 'base64'))
  })
}

function symmetric(secret, body, headers) {
  try {
    return new Webhook(secret).verify(body, headers).data !== undefined
  } catch {
    return false
  }
}

let checked = 0
for (const m of JSON.parse(readFileSync(process.argv[2], 'utf8'))) {
  for (const [i, good] of m.keys.entries()) {
    if (!symmetric(good.secret, m.body, m.headers)) throw new Error(`message ${checked}: v1 of pair ${i} does not verify`)
    if (!asymmetric(good.publicKey, m.body, m.headers)) throw new Error(`message ${checked}: v1a of pair ${i} does not verify`)
    if (symmetric(good.secret, m.body + ' ', m.headers)) throw new Error(`message ${checked}: another body verifies`)
    if (symmetric(good.secret, m.body, { ...m.headers, 'webhook-id': 'msg_other' })) throw new Error(`message ${checked}: another ID verifies`)
  }
  if (symmetric(m.other.secret, m.body, m.headers) || asymmetric(m.other.publicKey, m.body, m.headers)) {
    throw new Error(`message ${checked}: it verifies with another's keys`)
  }
  checked++
}
console.log(checked)
