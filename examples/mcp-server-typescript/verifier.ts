import { type AuthInfo, type AuthMetadataOptions, OAuthError, OAuthErrorCode, type OAuthTokenVerifier } from "@modelcontextprotocol/server";
import { createRemoteJWKSet, errors, jwtVerify } from "jose";

type Metadata = AuthMetadataOptions["oauthMetadata"];

/** The metadata of an issuer (RFC 8414), which must be its own. */
export async function issuerMetadata(issuer: string): Promise<Metadata> {
  const at = new URL(issuer);
  const response = await fetch(`${at.origin}/.well-known/oauth-authorization-server${at.pathname}`, { redirect: "error" });
  const metadata = (await response.json()) as Metadata;
  if (!response.ok || metadata.issuer !== issuer) throw new Error(`${issuer} has no metadata, or those of another issuer`);
  return metadata;
}

/**
 * Checks access tokens (RFC 9068). The key set of the issuer is read again after five minutes.
 * With acceptAct tokens are accepted with which somebody acts for their subject.
 */
export function newVerifier(issuer: Metadata, resource: string, acceptAct = false): OAuthTokenVerifier {
  const keys = createRemoteJWKSet(new URL(String(issuer.jwks_uri)), { cacheMaxAge: 300_000 });
  return {
    async verifyAccessToken(token: string): Promise<AuthInfo> {
      const { payload } = await jwtVerify(token, keys, {
        issuer: issuer.issuer, audience: resource, typ: "at+jwt", algorithms: ["ES256"], requiredClaims: ["exp", "sub", "client_id", "scope"],
      }).catch((error) => {
        if (error instanceof errors.JOSEError) throw refuse("it is not of this issuer, for this server and valid now");
        throw error; // the keys cannot be read
      });
      // another server that has it could use it here
      if (payload.aud !== resource) throw refuse("it must be for this server alone");
      const act = payload.act as { sub: string } | undefined;
      // who presents it is not its subject
      if (act !== undefined && !acceptAct) throw refuse("somebody acts for its subject, which this server is not told to accept");
      if (payload.cnf !== undefined) throw refuse("it is bound to a key (DPoP), whose proof is not checked here");
      return {
        token, clientId: String(payload.client_id), scopes: covered(String(payload.scope)), expiresAt: payload.exp, resource: new URL(resource),
        // of several actors the outermost is the current one (RFC 8693 §4.1)
        extra: { subject: act ? `${act.sub} for ${payload.sub}` : payload.sub },
      };
    },
  };
}

const refuse = (why: string) => new OAuthError(OAuthErrorCode.InvalidToken, `invalid token: ${why}`);

// An agent may write here.
const wider = new Map([["admin", ["admin", "writer", "reader"]], ["writer", ["writer", "reader"]], ["agent", ["agent", "writer", "reader"]], ["reader", ["reader"]]]);

/** The scopes of a token with those that they cover. */
const covered = (scope: string) => scope.split(" ").flatMap((name) => wider.get(name) ?? []);
