// What the conformance suite needs of a newer Node: fs.globSync, which it imports and does not use in
// these tests, is there from 22 on, and the globals from 20 on. node --import ./glob.mjs …
import { File } from 'node:buffer'
import { webcrypto } from 'node:crypto'
import * as fs from 'node:fs'
import { register } from 'node:module'

globalThis.File ??= File
globalThis.crypto ??= webcrypto

const data = (text) => 'data:text/javascript,' + encodeURIComponent(text)
if (!fs.globSync) {
  const substitute = data('export * from "node:fs"; export { default } from "node:fs"; export const globSync = () => { throw new Error("this Node has no globSync") }')
  register(data(`export const resolve = (name, context, next) =>
    name === 'fs' && context.parentURL?.includes('/conformance/') ? { url: ${JSON.stringify(substitute)}, shortCircuit: true } : next(name, context)`))
}
