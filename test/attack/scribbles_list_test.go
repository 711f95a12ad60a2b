package attack

import (
	"fmt"

	"attestd/internal/harness"
)

// sound are requests that a server obeys where nothing was written.
func (d *desk) sound() []scribble {
	get := func(path, token string) harness.Request {
		return harness.Request{Method: "GET", Path: path, Key: d.tokens[token]}
	}
	return []scribble{
		{"a client's secret", nil, d.bySecret(d.secretClient.ClientSecret), ""},
		{"a client's key", nil, d.byKey(d.keyClient, d.client), ""},
		{"a workload", nil, d.byWorkload(d.issuer, trustedName, "worker"), ""},
		{"a client's token", nil, get("/v1/company", "reader"), ""},
		{"a workload's token", nil, d.attests(d.evil, "workload reader"), ""},
		{"a JWT", nil, d.asks(d.tokens["jwt"]), `"active":true`},
		{"an exchange for an audience that is named", nil, d.exchanges(resource), ""},
		{"the key set", nil, harness.Request{Method: "GET", Path: "/o/acme/jwks"}, `"keys":[{`},
	}
}

func (d *desk) attests(agent, token string) harness.Request {
	return harness.Request{Method: "POST", Path: "/v1/attest", Key: d.tokens[token], Body: fmt.Sprintf(`{"agentId":%q,"actionType":"a","payload":1}`, agent)}
}

// scribbles are all of them, in the order of the table.
func (d *desk) scribbles() []scribble {
	mine, kid := keySetOf(d.mine), d.mine.Key().Thumbprint
	const secret = "cs_attacker"
	fingerprint := hashOf(secret)[2:18]
	of := func(id string) string { return fmt.Sprintf(" WHERE client_id = '%s'", id) }
	token := func(set, name string) []string {
		return []string{"UPDATE oauth_token SET " + set + " WHERE hash = " + d.hash(name)}
	}
	workload := func(set, name string) []string {
		return []string{"UPDATE federated_token SET " + set + " WHERE hash = " + d.hash(name)}
	}
	read := func(path, bearer string) harness.Request {
		return harness.Request{Method: "GET", Path: path, Key: bearer}
	}
	federation := func(set string) []string { return []string{"UPDATE federation SET " + set + " WHERE name = 'ci'"} }
	added := func(name, issuer, keys string) []string {
		return []string{fmt.Sprintf(`INSERT INTO federation (company, name, issuer, audience, jwks, rules, created_at)
			SELECT company, '%s', '%s', audience, '%s', rules, created_at FROM federation WHERE name = 'ci'`, name, issuer, keys)}
	}
	tokenKey := []string{fmt.Sprintf(`UPDATE token_key SET jwk = '%s', kid = '%s' WHERE alg = 'ES256'`, d.mine.Key().JWK(), kid)}
	anotherKey := []string{fmt.Sprintf(`INSERT INTO token_key (company, kid, alg, jwk, created_at, signs_from, ended_at)
		SELECT company, '%s', alg, '%s', created_at, signs_from, '2099-01-01T00:00:00.000Z' FROM token_key WHERE alg = 'ES256'`, kid, d.mine.Key().JWK())}
	published := harness.Request{Method: "GET", Path: "/o/acme/jwks"}
	return []scribble{
		{"`oauth_client`: a reader made an admin", []string{"UPDATE oauth_client SET role = 'admin'" + of(d.secretClient.ClientID)}, d.bySecret(d.secretClient.ClientSecret), ""},
		{"`oauth_client`: a secret exchanged", []string{"UPDATE oauth_client SET secret_hash = " + hashOf(secret) + of(d.secretClient.ClientID)}, d.bySecret(secret), ""},
		{"`oauth_client`: a secret exchanged, with its fingerprint", []string{"UPDATE oauth_client SET secret_hash = " + hashOf(secret) + ", fingerprint = '" + fingerprint + "'" + of(d.secretClient.ClientID)}, d.bySecret(secret), ""},
		{"`oauth_client`: a key exchanged", []string{"UPDATE oauth_client SET jwks = '" + mine + "'" + of(d.keyClient)}, d.byKey(d.keyClient, d.mine), ""},
		{"`oauth_client`: a key set moved to another URL", []string{"UPDATE oauth_client SET jwks_uri = '" + d.elsewhere.URL + "'" + of(d.urlClient)}, d.byKey(d.urlClient, d.mine), ""},
		{"`oauth_client`: a secret replaced by keys", []string{"UPDATE oauth_client SET jwks = '" + mine + "'" + of(d.secretClient.ClientID)}, d.byKey(d.secretClient.ClientID, d.mine), ""},
		{"`oauth_client`: a client added", []string{`INSERT INTO oauth_client (company, client_id, secret_hash, created_at, role, fingerprint, jwks)
			SELECT company, 'cc_EVIL', zeroblob(32), created_at, 'admin', '66687aadf862bd77', '` + mine + `' FROM oauth_client` + of(d.keyClient)}, d.byKey("cc_EVIL", d.mine), ""},

		{"`federation`: rules changed", federation(`rules = replace(rules, 'worker', 'stranger')`), d.byWorkload(d.issuer, trustedName, "stranger"), ""},
		{"`federation`: keys exchanged", federation("jwks = '" + mine + "'"), d.byWorkload(d.mine, trustedName, "worker"), ""},
		{"`federation`: keys moved to another URL", federation("jwks = NULL, jwks_uri = '" + d.elsewhere.URL + "'"), d.byWorkload(d.mine, trustedName, "worker"), ""},
		{"`federation`: another issuer", federation("issuer = 'https://evil.example'"), d.byWorkload(d.issuer, "https://evil.example", "worker"), ""},
		{"`federation`: a federation added", added("evil", "https://evil.example", mine), d.byWorkload(d.mine, "https://evil.example", "worker"), ""},
		{"`federation`: a deleted one brought back", added("gone", "https://gone.example", keySetOf(d.issuer)), d.byWorkload(d.issuer, "https://gone.example", "worker"), ""},

		{"`token_key`: a key exchanged, and published", tokenKey, published, kid},
		{"`token_key`: a key added, and published", anotherKey, published, kid},
		{"`token_key`: a key exchanged, and a token of it introspected", tokenKey, d.asks(d.resigned("jwt")), `"active":true`},
		{"`token_key`: a key added, and a token of it introspected", anotherKey, d.asks(d.resigned("jwt")), `"active":true`},
		{"`token_key`: a signing key's private part exchanged", []string{"UPDATE token_key SET private = zeroblob(138)"}, d.bySecret(d.secretClient.ClientSecret, "resource", resource), ""},

		{"`company_policy`: an audience named for exchanges", []string{`UPDATE company_policy SET exchange_audiences = '["sts.amazonaws.com"]'`}, d.exchanges("sts.amazonaws.com"), ""},

		{"`oauth_token`: a token made good for longer", token("expires_at = expires_at + 86400000", "reader"), read("/v1/company", d.tokens["reader"]), ""},
		{"`oauth_token`: a token given to another client", token("client = (SELECT id FROM oauth_client WHERE role = 'admin')", "reader"), read("/v1/keys", d.tokens["reader"]), ""},
		{"`oauth_token`: a token with a wider scope", token("scope = 'admin'", "reader"), read("/v1/company", d.tokens["reader"]), ""},
		{"`oauth_token`: a bound token made a bearer", token("jkt = NULL", "bound"), read("/v1/company", d.tokens["bound"]), ""},
		{"`oauth_token`: a token added under another's HMAC", []string{fmt.Sprintf(`INSERT INTO oauth_token (hash, company, expires_at, client, mac, scope)
			SELECT %s, company, expires_at, client, mac, scope FROM oauth_token WHERE hash = %s`, hashOf("oauth_attacker"), d.hash("reader"))}, read("/v1/company", "oauth_attacker"), ""},
		{"`oauth_token`: a revoked token's row put back", []string{d.putBack["revoked"]}, read("/v1/company", d.tokens["revoked"]), ""},
		{"`oauth_token`: a token put back with its deleted client", []string{d.putBack["client"], d.putBack["left"]}, read("/v1/company", d.tokens["left"]), ""},

		{"`federated_token`: a token made good for longer", workload("expires_at = expires_at + 86400000", "workload reader"), d.attests(d.evil, "workload reader"), ""},
		{"`federated_token`: a token given to another agent", workload("agent_id = 'bot'", "workload reader"), d.attests(d.bot, "workload reader"), ""},
		{"`federated_token`: a token given to another federation", workload("federation = (SELECT id FROM federation WHERE name = 'second')", "workload reader"), d.attests(d.evil, "workload reader"), ""},
		{"`federated_token`: a bound token made a bearer", workload("jkt = NULL", "workload bound"), d.attests(d.evil, "workload bound"), ""},
		{"`federated_token`: a token added under another's HMAC", []string{fmt.Sprintf(`INSERT INTO federated_token (hash, company, federation, agent_id, expires_at, mac)
			SELECT %s, company, federation, agent_id, expires_at, mac FROM federated_token WHERE hash = %s`, hashOf("oauth_attacker"), d.hash("workload reader"))}, read("/v1/agents/evil/svid", "oauth_attacker"), ""},
		{"`federated_token`: a client's token moved there", []string{
			fmt.Sprintf(`INSERT INTO federated_token (hash, company, federation, agent_id, expires_at, mac)
				SELECT hash, company, (SELECT id FROM federation WHERE name = 'ci'), 'bot', expires_at, mac FROM oauth_token WHERE hash = %s`, d.hash("reader")),
			"DELETE FROM oauth_token WHERE hash = " + d.hash("reader"),
		}, d.attests(d.bot, "reader"), ""},
		{"`federated_token`: a revoked token's row put back", []string{d.putBack["workload revoked"]}, d.attests(d.evil, "workload revoked"), ""},
		{"`federated_token`: a token put back with its deleted federation", []string{d.putBack["federation"], d.putBack["workload left"]}, d.attests(d.evil, "workload left"), ""},

		{"`revoked_token`: the revocation of a JWT deleted, and the JWT introspected", []string{"DELETE FROM revoked_token"}, d.asks(d.tokens["revoked jwt"]), `"active":true`},
		{"`used_proof`: a used assertion made good again", []string{"DELETE FROM used_proof"}, d.used, ""},
	}
}
