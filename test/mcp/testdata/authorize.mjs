// The TypeScript client of MCP lets itself be authorized as it is: from a 401 it finds the
// metadata of the resource and of the issuer, gets a token for the resource, and calls tools.
// node authorize.mjs '{"url":…,"issuer":…,"clients":{"writer":{"clientId","clientSecret"},…}}': a
// client with a privateKey in place of a secret signs assertions, and one with dpop binds its tokens
// to a key. Prints what each call came to.
import { webcrypto } from 'node:crypto'
import { Client, ClientCredentialsProvider, DpopSession, PrivateKeyJwtProvider, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'

globalThis.crypto ??= webcrypto // Node 18 has them by import alone
globalThis.CryptoKey ??= webcrypto.CryptoKey
const { url, issuer, clients } = JSON.parse(process.argv[2])
const calls = {
  attest: { agentId: 'bot', actionType: 'x', payload: 1 },
  verify: {},
}

async function provider({ clientId, clientSecret, privateKey, scope, dpop }) {
  const made = clientSecret
    ? new ClientCredentialsProvider({ clientId, clientSecret, scope, expectedIssuer: issuer })
    : new PrivateKeyJwtProvider({ clientId, privateKey, algorithm: 'ES256', scope, expectedIssuer: issuer })
  if (dpop) {
    const session = await DpopSession.create()
    made.dpop = () => session
  }
  return made
}

const done = {}
for (const [name, credentials] of Object.entries(clients)) {
  for (const revision of ['2025-11-25', '2026-07-28']) {
    const client = new Client({ name: 'typescript', version: '1' }, revision >= '2026'
      ? { versionNegotiation: { mode: { pin: revision } } }
      : { supportedProtocolVersions: [revision] })
    const authProvider = await provider(credentials)
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { authProvider }))
    const { tools } = await client.listTools()
    if (tools.length !== 5) throw new Error(`${tools.length} tools`)
    const call = (tool) => client.callTool({ name: tool, arguments: calls[tool] }).then(
      (result) => (result.isError ? result.content[0].text : 'ok'),
      (error) => error.message,
    )
    done[`${name} ${revision}`] = { verify: await call('verify'), attest: await call('attest') }
    if (authProvider.tokens().token_type.toLowerCase() !== (credentials.dpop ? 'dpop' : 'bearer')) throw new Error('another kind of token')
    await client.close()
  }
}
console.log(JSON.stringify(done))
