// oidc-provider as it is, the identity provider of a company, whose people sign in here.
// node people_provider.mjs CLIENT SECRET: prints its issuer, then reads the redirect URI of the
// client, a line of JSON for each account that is signed in from then on, and ends with its input.
import { strict as assert } from "node:assert";
import { webcrypto } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";

globalThis.crypto ??= webcrypto; // Node 18 has them by import alone
globalThis.CryptoKey ??= webcrypto.CryptoKey;
URL.parse ??= (text, base) => (URL.canParse(text, base) ? new URL(text, base) : null); // from Node 20 on
const jose = await import("jose");
const { default: Provider } = await import("oidc-provider");

const [client_id, client_secret] = process.argv.slice(2);
const http = createServer();
await new Promise((listens) => http.listen(0, "127.0.0.1", listens));
const issuer = `http://127.0.0.1:${http.address().port}`;
console.log(issuer);

let account; // who is at the browser
let provider;
for await (const line of createInterface({ input: process.stdin })) {
  if (provider) {
    account = JSON.parse(line);
    console.log("known");
    continue;
  }
  const { privateKey } = await jose.generateKeyPair("RS256", { extractable: true });
  provider = new Provider(issuer, {
    clients: [{ client_id, client_secret, redirect_uris: [line], grant_types: ["authorization_code"], response_types: ["code"] }],
    jwks: { keys: [{ ...(await jose.exportJWK(privateKey)), kid: "1", use: "sig" }] },
    cookies: { keys: ["of this process"] },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_ctx, { uid }) => `/interaction/${uid}` },
    claims: { openid: ["sub"], profile: ["preferred_username", "name", "groups"], email: ["email", "email_verified"] },
    conformIdTokenClaims: false, // the ID token has the claims of its scopes
    findAccount: (_ctx, accountId) => ({ accountId, claims: () => ({ ...account, sub: accountId }) }),
    loadExistingGrant: async (ctx) => {
      const grant = new ctx.oidc.provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
      grant.addOIDCScope("openid profile email");
      await grant.save();
      return grant;
    },
  });
  const serve = provider.callback();
  http.on("request", (request, response) => {
    if (!request.url.startsWith("/interaction/")) return serve(request, response);
    assert.ok(account, "nobody is at the browser");
    return provider.interactionFinished(request, response, { login: { accountId: account.sub } });
  });
  console.log("ready");
}
http.close();
http.closeAllConnections();
