// A session of the TypeScript client: node typescript.mjs '{"command":[…],"revision":"2025-11-25","server":"everything"}'. With
// "url" in place of "command" it is reached over HTTP; "small" says that messages of 8 MiB are refused. The server is that of
// @modelcontextprotocol/server-everything, or "tools", the one of these tests. It prints how many tools it has called.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'

const { command, url, small, revision, server } = JSON.parse(process.argv[2])
const modern = revision >= '2026'
const client = new Client({ name: 'typescript', version: '1' }, {
  capabilities: { elicitation: { form: {} }, sampling: {}, roots: { listChanged: true } },
  ...(modern ? { versionNegotiation: { mode: { pin: revision } } } : { supportedProtocolVersions: [revision] }),
})
const asked = { elicitation: 0, sampling: 0, roots: 0, progress: 0, changed: 0 }
client.setRequestHandler('elicitation/create', async () => {
  asked.elicitation++
  return { action: 'accept', content: { name: 'Ada' } }
})
client.setRequestHandler('sampling/createMessage', async () => {
  asked.sampling++
  return { model: 'm', role: 'assistant', content: { type: 'text', text: 'hello' } }
})
client.setRequestHandler('roots/list', async () => {
  asked.roots++
  return { roots: [{ uri: 'file:///work', name: 'work' }] }
})
client.setNotificationHandler('notifications/tools/list_changed', async () => { asked.changed++ })
await client.connect(url ? new StreamableHTTPClientTransport(new URL(url)) : new StdioClientTransport({
  command: command[0], args: command.slice(1), env: process.env, stderr: 'ignore', maxBufferSize: 64 << 20,
}))

let calls = 0
const call = (name, args, options) => {
  calls++
  return client.callTool({ name, arguments: args }, options)
}
const demand = (holds, what) => {
  if (!holds) throw new Error(what)
}
const everything = server === 'everything'
const echo = async text => {
  const result = await call('echo', everything ? { message: text } : { text })
  demand(result.content[0].text === (everything ? 'Echo: ' : '') + text, 'echo')
}
await Promise.all(Array.from({ length: 200 }, (_, n) => echo(`parallel ${n} \u2028 é 😀`)))
await echo('x'.repeat((url || small) && everything ? 3 << 20 : 8 << 20)) // its limit over HTTP is 4 MiB
const onprogress = () => asked.progress++
// The client drops progress that comes together with the answer, without a proxy too.
for (let tries = 0; asked.progress === 0 && tries < 20; tries++) {
  await (everything ? call('trigger-long-running-operation', { duration: 0.2, steps: 4 }, { onprogress }) : call('progress', { text: '' }, { onprogress }))
}
await (everything ? call('trigger-elicitation-request', {}) : call('ask', { text: '' }))
await (everything ? call('trigger-sampling-request', { prompt: 'Say hello', maxTokens: 10 }) : call('sample', { text: '' }))
if (everything) await call('get-roots-list', {})
else await call('grow', { text: '' })
await client.listTools()
const giveUp = new AbortController()
setTimeout(() => giveUp.abort(), 50)
const hangs = everything ? call('trigger-long-running-operation', { duration: 1, steps: 1 }, { signal: giveUp.signal }) : call('hang', { text: '' }, { signal: giveUp.signal })
await hangs.then(() => demand(false, 'a call that was given up was answered'), () => {})
await echo('last')
await client.close()
demand(asked.progress > 0 && asked.elicitation === 1 && asked.sampling === 1, JSON.stringify(asked))
demand(everything ? asked.roots > 0 : modern || asked.changed > 0, JSON.stringify(asked))
console.log(calls)
