// The conformance suite imports fs.globSync, which Node has from 22 on, and uses it elsewhere than
// in these tests: node --import ./glob.mjs …
import * as fs from 'node:fs'
import { register } from 'node:module'

const data = (text) => 'data:text/javascript,' + encodeURIComponent(text)
if (!fs.globSync) {
  const substitute = data('export * from "node:fs"; export { default } from "node:fs"; export const globSync = () => { throw new Error("this Node has no globSync") }')
  register(data(`export const resolve = (name, context, next) =>
    name === 'fs' && context.parentURL?.includes('/conformance/') ? { url: ${JSON.stringify(substitute)}, shortCircuit: true } : next(name, context)`))
}
