package attack

import (
	"fmt"

	"attestd/internal/harness"
)

// evilJWK is the public key of RFC 8037 (appendix A.2), of which everybody has the private one.
const (
	evilJWK = `{"crv":"Ed25519","kty":"OKP","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`
	evilKID = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
)

const aFederation = `{"name":%q,"issuer":"https://%[1]s.example","audience":"acme","jwks":{"keys":[` +
	`{"crv":"P-256","kty":"EC","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]},` +
	`"rules":[{"match":{"repository":"octo-org/octo-repo","ref":"refs/heads/main"},"agentId":"bot"}]}`

// ofIssuers change what a company takes and issues: its OAuth clients, its token keys and the
// issuers that it trusts.
var ofIssuers = []rewriting{
	{"an OAuth client made an admin", statements(`UPDATE oauth_client SET role = 'admin' WHERE jwks IS NULL AND jwks_uri IS NULL`), ""},
	{"an OAuth client's key exchanged", statements(`UPDATE oauth_client SET jwks = '{"keys":[` + evilJWK + `]}' WHERE jwks IS NOT NULL`), ""},
	{"an OAuth client's key set moved to another URL", statements(`UPDATE oauth_client SET jwks_uri = 'https://evil.example/jwks' WHERE jwks_uri IS NOT NULL`), ""},
	{"an OAuth client added", statements(`INSERT INTO oauth_client (company, client_id, secret_hash, created_at, role, fingerprint, jwks)
		SELECT company, 'cc_EVIL', zeroblob(32), created_at, 'admin', '66687aadf862bd77', '{"keys":[` + evilJWK + `]}' FROM oauth_client WHERE jwks IS NOT NULL`), ""},
	{"an OAuth client deleted", statements(`DELETE FROM oauth_client WHERE jwks IS NOT NULL`), ""},
	{"a federation's rules widened", statements(`UPDATE federation SET rules = replace(rules, 'refs/heads/main', '*') WHERE name = 'ci'`), ""},
	{"a federation's keys exchanged", statements(`UPDATE federation SET jwks = '{"keys":[` + evilJWK + `]}' WHERE name = 'ci'`), ""},
	{"a federation given another issuer", statements(`UPDATE federation SET issuer = 'https://evil.example', jwks = NULL WHERE name = 'ci'`), ""},
	{"a federation added", statements(`INSERT INTO federation (company, name, issuer, audience, rules, created_at)
		SELECT company, 'evil', 'https://evil.example', audience, rules, created_at FROM federation WHERE name = 'ci'`), ""},
	{"a deleted federation brought back", statements(`INSERT INTO federation (company, name, issuer, audience, jwks, rules, created_at)
		SELECT company, 'gone', 'https://gone.example', audience, jwks, rules, created_at FROM federation WHERE name = 'ci'`), ""},
	{"a federation deleted", statements(`DELETE FROM federation WHERE name = 'ci'`), ""},
	{"a token key added", statements(`INSERT INTO token_key (company, kid, alg, jwk, created_at, signs_from, ended_at)
		SELECT company, '` + evilKID + `', 'EdDSA', '` + evilJWK + `', created_at, signs_from, '2099-01-01T00:00:00.000Z' FROM token_key WHERE company = 1 LIMIT 1`), ""},
	{"a token key exchanged", statements(`UPDATE token_key SET jwk = '` + evilJWK + `' WHERE company = 1 AND alg = 'EdDSA'`), ""},
	{"a token key's end moved", statements(`UPDATE token_key SET ended_at = '2099-01-01T00:00:00.000Z' WHERE company = 2 AND ended_at IS NOT NULL`), ""},
	{"`compromised_at` of a token key taken back", statements(`UPDATE token_key SET compromised_at = NULL WHERE company = 2 AND compromised_at IS NOT NULL`), ""},
	{"a token key deleted", statements(`DELETE FROM token_key WHERE company = 1`), ""},
	{"an audience for exchanges added", statements(`UPDATE company_policy SET exchange_audiences = '["https://mcp.example/","sts.amazonaws.com"]'`), ""},
	{"audiences for exchanges given to another company", statements(`INSERT INTO company_policy (company, exchange_audiences) SELECT 2, exchange_audiences FROM company_policy`), ""},
	{"the audiences for exchanges deleted", statements(`DELETE FROM company_policy`), ""},
}

// fillIssuers creates OAuth clients of each kind, a federation, and one that is deleted.
func (h *history) fillIssuers(c *harness.Client) (err error) {
	do := func(status int, method, path, body string) {
		if err == nil {
			err = c.Call(status, harness.Request{Method: method, Path: path, Key: h.keys["acme"], Body: body}, nil)
		}
	}
	do(201, "POST", "/v1/oauth/clients", `{"role":"reader"}`)
	do(201, "POST", "/v1/oauth/clients", `{"role":"reader","jwks":{"keys":[{"crv":"P-256","kty":"EC","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}}`)
	// no server asks there
	do(201, "POST", "/v1/oauth/clients", `{"role":"reader","jwksUri":"https://client.invalid/jwks"}`)
	do(201, "POST", "/v1/federation", fmt.Sprintf(aFederation, "ci"))
	do(201, "POST", "/v1/federation", fmt.Sprintf(aFederation, "gone"))
	do(200, "DELETE", "/v1/federation/gone", "")
	do(200, "PUT", "/v1/company/policy", `{"exchangeAudiences":["https://mcp.example/"]}`)
	return err
}

// issueTokens has a company make a token key.
func (h *history) issueTokens(c *harness.Client, company string) error {
	err := c.Call(201, harness.Request{Method: "POST", Path: "/v1/agents/register", Key: h.keys[company], Body: `{"agentId":"issues"}`}, nil)
	if err == nil {
		err = c.Call(201, harness.Request{Method: "POST", Path: "/v1/agents/issues/token", Key: h.keys[company], Body: `{"audience":"https://mcp.example"}`}, nil)
	}
	return err
}
