package attack

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"attestd/crypto/assertion"
	"attestd/crypto/jose"
	"attestd/crypto/keys"
	"attestd/internal/harness"
)

// desk is a stopped service with clients, issuers and tokens of each kind, and what an attacker has
// who may write the file.
type desk struct {
	*run
	*harness.Client
	db, admin string

	mine, issuer, client *jose.PrivateKey // the attacker's; of the trusted issuer; of a client
	secretClient, leaves client           // readers; one is deleted
	keyClient, urlClient string           // readers
	evil, bot            string           // agents
	tokens               map[string]string
	putBack              map[string]string // statements that insert rows which were deleted
	elsewhere            *httptest.Server  // of the attacker: a key set with mine
	asked                atomic.Int64
	used                 harness.Request // a workload's, which counts once
}

type client struct{ ClientID, ClientSecret string }

var deskFlags = []string{"--rate-limits", "off", "--federation-allow-private"}

const (
	companyToken = "/o/acme/token"
	audience     = "acme"
	trustedName  = "https://ci.example"
	resource     = "https://mcp.example/"
)

func newDesk(ctx context.Context, r *run) (d *desk, err error) {
	d = &desk{run: r, tokens: map[string]string{}, putBack: map[string]string{}, evil: "evil", bot: "bot"}
	for _, key := range []**jose.PrivateKey{&d.mine, &d.issuer, &d.client} {
		if *key, err = jose.GenerateKey(jose.ES256); err != nil {
			return nil, err
		}
	}
	d.elsewhere = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		d.asked.Add(1)
		fmt.Fprint(w, keySetOf(d.mine))
	}))
	s, db, err := r.Lab.ServeNew(ctx, deskFlags...)
	if err != nil {
		return nil, err
	}
	d.db, d.Client = db, &harness.Client{Addr: s.Addr}
	defer d.Close()
	err = errors.Join(d.fill(), s.Stop())
	if err == nil {
		err = d.keepRows(ctx)
	}
	if err != nil {
		return nil, err
	}
	if s, err = r.Lab.Serve(ctx, db, deskFlags...); err != nil {
		return nil, err
	}
	d.Client = &harness.Client{Addr: s.Addr}
	defer d.Close()
	return d, errors.Join(d.revoke(), s.Stop())
}

func keySetOf(key *jose.PrivateKey) string { return `{"keys":[` + key.Key().JWK() + `]}` }

func (d *desk) fill() (err error) {
	if d.admin, err = d.Register("acme"); err != nil {
		return err
	}
	do := func(status int, method, path, body string, dest any) {
		if err == nil {
			err = d.Call(status, harness.Request{Method: method, Path: path, Key: d.admin, Body: body}, dest)
		}
	}
	for _, agent := range []string{d.bot, d.evil} {
		var made struct{ SVID string }
		do(201, "POST", "/v1/agents/register", fmt.Sprintf(`{"agentId":%q}`, agent), &made)
		d.tokens["SVID of "+agent] = made.SVID
	}
	do(200, "PUT", "/v1/company/policy", fmt.Sprintf(`{"exchangeAudiences":[%q]}`, resource), nil)
	var made client
	do(201, "POST", "/v1/oauth/clients", `{"role":"reader"}`, &d.secretClient)
	do(201, "POST", "/v1/oauth/clients", `{"role":"reader"}`, &d.leaves)
	do(201, "POST", "/v1/oauth/clients", `{"role":"reader","jwks":`+keySetOf(d.client)+`}`, &made)
	d.keyClient = made.ClientID
	do(201, "POST", "/v1/oauth/clients", `{"role":"reader","jwksUri":"http://127.0.0.1:9/jwks"}`, &made)
	d.urlClient = made.ClientID
	do(201, "POST", "/v1/oauth/clients", `{"role":"admin"}`, nil)
	for _, name := range []string{"ci", "gone", "second"} {
		do(201, "POST", "/v1/federation", fmt.Sprintf(`{"name":%q,"issuer":%q,"audience":%q,"jwks":%s,"rules":[{"match":{"sub":"worker"},"agentId":"evil"}]}`,
			name, map[string]string{"ci": trustedName}[name]+map[string]string{"gone": "https://gone.example", "second": "https://second.example"}[name],
			audience, keySetOf(d.issuer)), nil)
	}
	issue := func(name string, request harness.Request) {
		var issued struct {
			AccessToken string `json:"access_token"`
		}
		if err == nil {
			err = d.Call(200, request, &issued)
		}
		d.tokens[name] = issued.AccessToken
	}
	proof := func(path string) string {
		line, made := proofOf(d.client, "POST", path, "")
		err = errors.Join(err, made)
		return line
	}
	for _, name := range []string{"reader", "revoked"} {
		issue(name, d.bySecret(d.secretClient.ClientSecret))
		d.used = d.byWorkload(d.issuer, trustedName, "worker")
		issue("workload "+name, d.used)
	}
	issue("left", form(companyToken, "", "grant_type", "client_credentials", "client_id", d.leaves.ClientID, "client_secret", d.leaves.ClientSecret))
	issue("workload left", d.byWorkload(d.issuer, "https://gone.example", "worker"))
	issue("bound", withHeader(d.bySecret(d.secretClient.ClientSecret), proof(companyToken)))
	issue("workload bound", withHeader(d.byWorkload(d.issuer, trustedName, "worker"), proof(companyToken)))
	for _, name := range []string{"jwt", "revoked jwt"} {
		issue(name, d.bySecret(d.secretClient.ClientSecret, "resource", resource))
	}
	return err
}

// revoke ends some of the tokens, by themselves or with their holders.
func (d *desk) revoke() (err error) {
	for _, path := range []string{"/v1/federation/gone", "/v1/oauth/clients/" + d.leaves.ClientID} {
		if err == nil {
			err = d.Call(200, harness.Request{Method: "DELETE", Path: path, Key: d.admin}, nil)
		}
	}
	for _, name := range []string{"revoked", "workload revoked", "revoked jwt"} {
		if err == nil {
			err = d.Call(200, form("/o/acme/revoke", d.admin, "token", d.tokens[name]), nil)
		}
	}
	return err
}

// keepRows remembers rows that are deleted later, by the API.
func (d *desk) keepRows(ctx context.Context) error {
	file, err := sql.Open("sqlite", "file:"+filepath.ToSlash(d.db))
	if err != nil {
		return err
	}
	defer file.Close()
	const ofToken, ofWorkload = "hash, company, expires_at, client, mac, bound, scope", "hash, company, federation, agent_id, expires_at, mac"
	for _, row := range []struct{ name, table, columns, where string }{
		{"revoked", "oauth_token", ofToken, "hash = " + d.hash("revoked")},
		{"workload revoked", "federated_token", ofWorkload, "hash = " + d.hash("workload revoked")},
		{"left", "oauth_token", ofToken, "hash = " + d.hash("left")},
		{"workload left", "federated_token", ofWorkload, "hash = " + d.hash("workload left")},
		{"client", "oauth_client", "id, company, client_id, secret_hash, created_at, made_by, role, fingerprint", "client_id = '" + d.leaves.ClientID + "'"},
		{"federation", "federation", "id, company, name, issuer, audience, jwks, rules, created_at", "name = 'gone'"},
	} {
		columns := strings.ReplaceAll(row.columns, ", ", ") || ',' || quote(")
		var values string
		query := fmt.Sprintf("SELECT quote(%s) FROM %s WHERE %s", columns, row.table, row.where)
		if err := file.QueryRowContext(ctx, query).Scan(&values); err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
		d.putBack[row.name] = fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", row.table, row.columns, values)
	}
	return nil
}

// hash is the SQL of the hash of a token.
func (d *desk) hash(token string) string { return hashOf(d.tokens[token]) }

func hashOf(secret string) string { return fmt.Sprintf("x'%x'", keys.HashSecret(secret)) }

func form(path, key string, params ...string) harness.Request {
	values := url.Values{}
	for i := 0; i < len(params); i += 2 {
		values.Set(params[i], params[i+1])
	}
	return harness.Request{Method: "POST", Path: path, Key: key, Body: values.Encode(), Header: []string{"Content-Type: application/x-www-form-urlencoded"}}
}

func withHeader(r harness.Request, line string) harness.Request {
	r.Header = append(r.Header, line)
	return r
}

// bySecret asks for a token of the client with a secret.
func (d *desk) bySecret(secret string, more ...string) harness.Request {
	return form(companyToken, "", append([]string{"grant_type", "client_credentials", "client_id", d.secretClient.ClientID, "client_secret", secret}, more...)...)
}

// byKey asks for a token of a client with keys.
func (d *desk) byKey(id string, key *jose.PrivateKey) harness.Request {
	text := forgedJWS(key, object{"alg": jose.ES256}, object{"iss": id, "sub": id, "aud": harness.Base + companyToken, "jti": rawID(), "exp": time.Now().Unix() + 120})
	return form(companyToken, "", "grant_type", "client_credentials", "client_assertion_type", assertion.Type, "client_assertion", text)
}

// byWorkload asks for a token of a workload.
func (d *desk) byWorkload(key *jose.PrivateKey, issuer, subject string) harness.Request {
	text := forgedJWS(key, object{"alg": jose.ES256}, object{"iss": issuer, "sub": subject, "aud": audience, "jti": rawID(), "exp": time.Now().Unix() + 600})
	return form(companyToken, "", "grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion", text)
}

// exchanges asks for a token with which evil acts for bot, for an audience.
func (d *desk) exchanges(audience string) harness.Request {
	const jwt = "urn:ietf:params:oauth:token-type:jwt"
	return form(companyToken, d.admin, "grant_type", "urn:ietf:params:oauth:grant-type:token-exchange", "audience", audience,
		"subject_token", d.tokens["SVID of "+d.bot], "subject_token_type", jwt, "actor_token", d.tokens["SVID of "+d.evil], "actor_token_type", jwt)
}

// asks asks whether a token is active.
func (d *desk) asks(token string) harness.Request {
	return form("/o/acme/introspect", d.admin, "token", token)
}

// resigned is a JWT of the company's issuer with the claims of one, signed by the attacker.
func (d *desk) resigned(token string) string {
	parts := strings.Split(d.tokens[token], ".")
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1]) // the service has made it
	return forgedJWS(d.mine, object{"alg": jose.ES256, "typ": "at+jwt", "kid": d.mine.Key().Thumbprint}, json.RawMessage(payload))
}
