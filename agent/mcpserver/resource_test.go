package mcpserver_test

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"attestd/crypto/dpop"
	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/internal/must"
)

// An access token of the company's issuer for this resource is accepted. Any other token is
// refused, with a challenge that names the metadata and quotes nothing of the token.
func TestAccessTokens(t *testing.T) {
	t.Parallel()
	i := newIssuers(t)
	h := i.protected(t, resource, nowhere)
	public, err := x509.MarshalPKIXPublicKey(i.keys["acme"].Public())
	must.OK(t, err)
	now := time.Now().Unix()
	parts := func(token string, change func(part []string)) string {
		p := strings.Split(token, ".")
		change(p)
		return strings.Join(p, ".")
	}
	for name, c := range map[string]struct {
		want   string // part of the description; "" for an accepted token
		change func(*draft)
	}{
		"sound":                         {"", func(*draft) {}},
		"typ as a media type":           {"", func(d *draft) { d.header["typ"] = "application/AT+JWT" }},
		"aud as a list of one":          {"", func(d *draft) { d.claims["aud"] = []string{resource} }},
		"typ JWT: who an agent is":      {"typ at+jwt", func(d *draft) { d.header["typ"] = "JWT" }},
		"no typ":                        {"typ at+jwt", func(d *draft) { d.header["typ"] = "" }},
		"typ of a client's assertion":   {"typ at+jwt", func(d *draft) { d.header["typ"] = "client-authentication+jwt" }},
		"typ of a passport":             {"typ at+jwt", func(d *draft) { d.header["typ"] = "CAP+JWT" }},
		"EdDSA, by a key of the issuer": {"ES256", func(d *draft) { d.kid, d.method = "acme EdDSA", jwt.SigningMethodEdDSA; d.header["kid"] = d.kid }},
		"RS256, by a key of the issuer": {"ES256", func(d *draft) { d.kid, d.method = "acme RS256", jwt.SigningMethodRS256; d.header["kid"] = d.kid }},
		"none":                          {"ES256", func(d *draft) { d.method, d.secret = jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType }},
		"HS256 with the public key":     {"ES256", func(d *draft) { d.method, d.secret = jwt.SigningMethodHS256, public }},
		"ES256 with the kid of EdDSA":   {"signed by a key", func(d *draft) { d.header["kid"] = "acme EdDSA" }},
		"a stranger's key":              {"signed by a key", func(d *draft) { d.kid = "stranger" }},
		"a stranger's key and kid":      {"signed by a key", func(d *draft) { d.kid = "stranger"; d.header["kid"] = "stranger" }},
		"a key in the header":           {"no key in its header", func(d *draft) { d.kid = "stranger"; d.header["jwk"] = json.RawMessage(`{"kty":"EC"}`) }},
		"another key set in the header": {"not a signed JWT", func(d *draft) { d.header["jku"] = "https://evil.example/jwks" }},
		"crit":                          {"not a signed JWT", func(d *draft) { d.header["crit"] = []string{"x"} }},
		"another company, by its key": {"issuer", func(d *draft) {
			d.kid = "zoo"
			d.header["kid"] = "zoo"
			d.claims["iss"] = i.of("zoo")
			d.claims["org"] = "zoo"
		}},
		"another company's key":     {"signed by a key", func(d *draft) { d.kid = "zoo"; d.header["kid"] = "zoo" }},
		"with somebody it acts for": {"no act", func(d *draft) { d.claims["act"] = map[string]any{"sub": "x"} }},
		"of another company":        {"another company", func(d *draft) { d.claims["org"] = "zoo" }},
		"of no company":             {"another company", func(d *draft) { delete(d.claims, "org") }},
		"another issuer":            {"issuer", func(d *draft) { d.claims["iss"] = "https://evil.example/o/acme" }},
		"issuer with a slash":       {"issuer", func(d *draft) { d.claims["iss"] = i.of("acme") + "/" }},
		"no issuer":                 {"must have iss", func(d *draft) { delete(d.claims, "iss") }},
		"another resource":          {"for " + resource, func(d *draft) { d.claims["aud"] = "https://other.example/mcp" }},
		"resource with a slash":     {"for " + resource, func(d *draft) { d.claims["aud"] = resource + "/" }},
		"the host alone":            {"for " + resource, func(d *draft) { d.claims["aud"] = "https://mcp.example" }},
		"beneath the resource":      {"for " + resource, func(d *draft) { d.claims["aud"] = resource + "/x" }},
		"another case":              {"for " + resource, func(d *draft) { d.claims["aud"] = strings.ToUpper(resource) }},
		"the API":                   {"for " + resource, func(d *draft) { d.claims["aud"] = i.of("acme") }},
		"two resources":             {"exactly one aud", func(d *draft) { d.claims["aud"] = []string{resource, "https://other.example/mcp"} }},
		"no audience":               {"exactly one aud", func(d *draft) { delete(d.claims, "aud") }},
		"expired":                   {"expired", func(d *draft) { d.claims["exp"] = now - 1 }},
		"expired long ago":          {"expired", func(d *draft) { d.claims["iat"], d.claims["exp"] = now-7200, now-3600 }},
		"no end":                    {"exp", func(d *draft) { delete(d.claims, "exp") }},
		"end far ahead":             {"times", func(d *draft) { d.claims["exp"] = now + 86400*30 }},
		"end as text":               {"exp", func(d *draft) { d.claims["exp"] = fmt.Sprint(now + 300) }},
		"from later on":             {"times", func(d *draft) { d.claims["nbf"] = now + 3600 }},
		"issued later on":           {"times", func(d *draft) { d.claims["iat"] = now + 3600 }},
		"bound to a certificate":    {"bound to something else", func(d *draft) { d.claims["cnf"] = map[string]string{"x5t#S256": "x"} }},
		"bound to nothing":          {"bound to something else", func(d *draft) { d.claims["cnf"] = map[string]string{} }},
		"other claims, old signature": {"signed by a key", func(d *draft) {
			d.change = func(token string) string {
				return parts(token, func(p []string) {
					claims := d.claims
					claims["scope"] = "admin"
					p[1] = josetest.Encode(josetest.Marshal(t, claims))
				})
			}
		}},
		"no signature": {"signed by a key", func(d *draft) {
			d.change = func(token string) string { return parts(token, func(p []string) { p[2] = "" }) }
		}},
		"duplicate audience": {"must have iss", func(d *draft) {
			d.change = func(token string) string {
				return parts(token, func(p []string) {
					claims, err := base64.RawURLEncoding.DecodeString(p[1])
					must.OK(t, err)
					p[1] = josetest.Encode([]byte(`{"aud":"https://other.example",` + string(claims[1:])))
				})
			}
		}},
		"encrypted":       {"not a signed JWT", func(d *draft) { d.change = func(string) string { return "a.b.c.d.e" } }},
		"an API key":      {"not a signed JWT", func(d *draft) { d.change = func(string) string { return "svc_" + strings.Repeat("a", 43) } }},
		"an opaque token": {"not a signed JWT", func(d *draft) { d.change = func(string) string { return "oauth_abc" } }},
		"too long":        {"not a signed JWT", func(d *draft) { d.claims["x"] = strings.Repeat("x", 16<<10) }},
	} {
		d := i.sound()
		c.change(d)
		token := i.sign(t, d)
		answer, text := post(h, ping, token, nil)
		challenge := answer.Header.Get("WWW-Authenticate")
		switch {
		case c.want == "":
			if answer.StatusCode != http.StatusOK || !strings.Contains(text, `"result"`) {
				t.Errorf("%s: %d %s", name, answer.StatusCode, text)
			}
		case answer.StatusCode != http.StatusUnauthorized || !strings.Contains(text, c.want):
			t.Errorf("%s: %d %s, want %q", name, answer.StatusCode, text, c.want)
		case challenge != `Bearer resource_metadata="https://mcp.example`+metadataPath+`", error="invalid_token", error_description="`+text+`"`:
			t.Errorf("%s: %s", name, challenge)
		case strings.Contains(text, token) || strings.Contains(text, "evil") || strings.Contains(text, "zoo"):
			t.Errorf("%s: the answer quotes the token: %s", name, text)
		}
	}
	if n := i.fetched.Load(); n != 1 {
		t.Errorf("the key set was fetched %d times", n)
	}
}

// Without a bearer token a challenge names the metadata, and no error (RFC 6750 §3.1).
func TestWithoutAccessToken(t *testing.T) {
	t.Parallel()
	i := newIssuers(t)
	h := i.protected(t, resource, nowhere)
	token := i.sign(t, i.sound())
	for name, change := range map[string]func(*http.Request){
		"none":        func(*http.Request) {},
		"Basic":       func(r *http.Request) { r.SetBasicAuth("a", "b") },
		"two":         func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer " + token, "Bearer " + token} },
		"in the URL":  func(r *http.Request) { r.URL.RawQuery = "access_token=" + token },
		"a GET":       func(r *http.Request) { r.Method = http.MethodGet },
		"empty":       func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") },
		"with spaces": func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token+" x") },
	} {
		answer, _ := post(h, ping, "", change)
		if got := answer.Header.Get("WWW-Authenticate"); answer.StatusCode != 401 || got != `Bearer resource_metadata="https://mcp.example`+metadataPath+`"` {
			t.Errorf("%s: %d %s", name, answer.StatusCode, got)
		}
	}
}

// What a scope allows: a tool that needs another is refused with a challenge that names the least
// that would do.
func TestScopesOfTools(t *testing.T) {
	t.Parallel()
	i := newIssuers(t)
	h := i.protected(t, resource, nowhere)
	for _, c := range []struct{ scope, agent, refused string }{
		{"admin", "", ""},
		{"writer", "", ""},
		{"writer reader", "", ""},
		{"reader", "", "attest check_passport"},
		{"agent", "bot", "check_passport verify prove search_records"},
		{"agent", "", "attest check_passport verify prove search_records ping"},
		{"", "", "attest check_passport verify prove search_records ping"},
		{"openid", "", "attest check_passport verify prove search_records ping"},
		{"WRITER", "", "attest check_passport verify prove search_records ping"},
	} {
		token := i.scoped(t, c.scope, c.agent)
		for _, tool := range []string{"attest", "check_passport", "verify", "prove", "search_records", "ping", "unknown"} {
			body := ping
			if tool != "ping" {
				body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{}}}`
			}
			want := 200
			if strings.Contains(c.refused, tool) || strings.Contains(c.refused, "ping") {
				want = 403
			}
			answer, text := post(h, body, token, nil)
			if answer.StatusCode != want {
				t.Errorf("%q of %q, %s: %d %s", c.scope, c.agent, tool, answer.StatusCode, text)
			}
			needs := "reader"
			if (tool == "attest" || tool == "check_passport") && !strings.Contains(c.refused, "ping") {
				needs = "writer"
			}
			if challenge := answer.Header.Get("WWW-Authenticate"); want == 403 && (!strings.Contains(challenge, `error="insufficient_scope"`) ||
				!strings.HasSuffix(challenge, `, scope="`+needs+`"`) || !strings.Contains(challenge, metadataPath)) {
				t.Errorf("%q of %q, %s: %s", c.scope, c.agent, tool, challenge)
			}
		}
	}
}

// A tool holds to the scope also where the request hides which tool it calls, and an agent attests
// in its own name alone. The service gets the credential of the server, and no access token.
func TestToolsHoldToTheScope(t *testing.T) {
	t.Parallel()
	i := newIssuers(t)
	var mu sync.Mutex
	var asked []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var body struct{ AgentID string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		asked = append(asked, r.Header.Get("Authorization")+" "+r.URL.Path+" "+body.AgentID)
		w.WriteHeader(http.StatusBadRequest)
	}))
	t.Cleanup(service.Close)
	h := i.protected(t, resource, service.URL)
	call := func(args string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"attest","arguments":{"actionType":"x","payload":1` + args + `}}}`
	}
	batch := func(r *http.Request) { r.Header.Set("Mcp-Protocol-Version", "2025-03-26") }
	if _, text := post(h, "["+call(`,"agentId":"bot"`)+"]", i.scoped(t, "reader", ""), batch); !strings.Contains(text, "does not allow attest") {
		t.Errorf("a batch: %s", text)
	}
	agent := i.scoped(t, "agent", "bot")
	if _, text := post(h, call(`,"agentId":"other"`), agent, nil); !strings.Contains(text, "attests for no other") {
		t.Errorf("in another's name: %s", text)
	}
	if len(asked) != 0 {
		t.Errorf("attestd was asked: %q", asked)
	}
	post(h, call(""), agent, nil)
	post(h, call(`,"agentId":"bot"`), agent, nil)
	if got := strings.Join(asked, "\n"); got != "Bearer svc_k /v1/attest bot\nBearer svc_k /v1/attest bot" {
		t.Errorf("attestd was asked: %s", got)
	}
}

// While the keys of the issuer cannot be fetched nothing is accepted, and a client may try again.
func TestIssuerAway(t *testing.T) {
	t.Parallel()
	i := newIssuers(t)
	i.down.Store(true)
	h := i.protected(t, resource, nowhere)
	answer, text := post(h, ping, i.sign(t, i.sound()), nil)
	if answer.StatusCode != 503 || answer.Header.Get("Retry-After") == "" || strings.Contains(text, "127.0.0.1") {
		t.Errorf("%d %s", answer.StatusCode, text)
	}
}

// A body that is too long is refused by the protocol's server, not cut.
func TestLongBody(t *testing.T) {
	t.Parallel()
	i := newIssuers(t)
	h := i.protected(t, resource, nowhere)
	token := i.sign(t, i.sound())
	long := func(n int) string {
		return `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", n) + `"}}`
	}
	if answer, text := post(h, long(7<<20), token, nil); answer.StatusCode != 200 {
		t.Errorf("7 MiB: %d %.100s", answer.StatusCode, text)
	}
	if answer, _ := post(h, long(8<<20), token, nil); answer.StatusCode/100 != 4 {
		t.Errorf("more than 8 MiB: %d", answer.StatusCode)
	}
}

// A token that is bound to a key counts with a new proof of that key for this request, and not
// otherwise: RFC 9449 §4.3, row by row.
func TestBoundAccessTokens(t *testing.T) {
	t.Parallel()
	i := newIssuers(t)
	h := i.protected(t, resource, nowhere)
	key, other := josetest.PrivateKey(t, jose.ES256), josetest.PrivateKey(t, jose.EdDSA)
	bound := func(jkt string) string {
		d := i.sound()
		d.claims["cnf"] = map[string]string{"jkt": jkt}
		return i.sign(t, d)
	}
	token, unbound := bound(key.Key().Thumbprint), i.sign(t, i.sound())
	now := time.Now()
	proof := func(k *jose.PrivateKey, r dpop.Request, at time.Time) string {
		made, err := dpop.Make(t.Context(), k, r, at)
		must.OK(t, err)
		return made
	}
	forge := func(header string, claims map[string]any) string {
		jwk := josetest.Raw(key.Key().JWK())
		all := map[string]any{"typ": "dpop+jwt", "alg": "ES256", "jwk": jwk}
		if header == "typ" {
			all["typ"] = "JWT"
		} else if header != "" {
			all[header] = josetest.Raw(`"x"`)
		}
		return josetest.Forge(t, key, josetest.Marshal(t, all), josetest.Marshal(t, claims))
	}
	sum := sha256.Sum256([]byte(token))
	claims := func(name string, value any) map[string]any {
		c := map[string]any{"jti": fmt.Sprint(name, value), "htm": "POST", "htu": resource, "iat": now.Unix(), "ath": josetest.Encode(sum[:])}
		if c[name] = value; value == nil {
			delete(c, name)
		}
		return c
	}
	good := dpop.Request{Method: "POST", URL: resource, AccessToken: token}
	used := proof(key, good, now)
	for _, c := range []struct {
		name, token string
		want        string // code of the challenge, "" for an accepted request
		proofs      []string
	}{
		{"a new proof", token, "", []string{used}},
		{"another new proof", token, "", []string{proof(key, good, now)}},
		{"in full", token, "", []string{forge("", claims("x", 1))}},
		{"the same proof again", token, "invalid_dpop_proof", []string{used}},
		{"no proof", token, "invalid_dpop_proof", nil},
		{"two proofs", token, "invalid_dpop_proof", []string{proof(key, good, now), proof(key, good, now)}},
		{"no JWT", token, "invalid_dpop_proof", []string{"x"}},
		{"typ", token, "invalid_dpop_proof", []string{forge("typ", claims("x", 2))}},
		{"alg", token, "invalid_dpop_proof", []string{forge("alg", claims("x", 3))}},
		{"another key", token, "invalid_dpop_proof", []string{proof(other, good, now)}},
		{"another signature", token, "invalid_dpop_proof", []string{used[:strings.LastIndex(used, ".")+1] + strings.Repeat("A", 86)}},
		{"htm", token, "invalid_dpop_proof", []string{forge("", claims("htm", "GET"))}},
		{"htu of another server", token, "invalid_dpop_proof", []string{forge("", claims("htu", "https://other.example/mcp"))}},
		{"htu behind the proxy", token, "invalid_dpop_proof", []string{forge("", claims("htu", "http://"+listens+"/mcp"))}},
		{"iat long ago", token, "invalid_dpop_proof", []string{proof(key, good, now.Add(-dpop.Window-time.Minute))}},
		{"iat ahead", token, "invalid_dpop_proof", []string{proof(key, good, now.Add(dpop.Window+time.Minute))}},
		{"no iat", token, "invalid_dpop_proof", []string{forge("", claims("iat", nil))}},
		{"no jti", token, "invalid_dpop_proof", []string{forge("", claims("jti", nil))}},
		{"no ath", token, "invalid_dpop_proof", []string{forge("", claims("ath", nil))}},
		{"ath of another token", token, "invalid_dpop_proof", []string{proof(key, dpop.Request{Method: "POST", URL: resource, AccessToken: unbound}, now)}},
		{"a token that is bound to another key", bound(other.Key().Thumbprint), "invalid_dpop_proof", []string{proof(key, good, now)}},
		{"a token that is bound to no key", unbound, "invalid_token", []string{proof(key, dpop.Request{Method: "POST", URL: resource, AccessToken: unbound}, now)}},
	} {
		answer, text := post(h, ping, "", func(r *http.Request) {
			r.Header.Set("Authorization", "DPoP "+c.token)
			r.Header["Dpop"] = c.proofs
		})
		got := answer.Header.Get("WWW-Authenticate")
		switch {
		case c.want == "" && answer.StatusCode == 200:
		case c.want != "" && answer.StatusCode == 401 && strings.HasPrefix(got, `DPoP resource_metadata="https://mcp.example`+metadataPath+`", error="`+c.want+`"`) &&
			strings.Count(got, `"`) == 8:
		default:
			t.Errorf("%s: %d %s, %s", c.name, answer.StatusCode, text, got)
		}
	}
	answer, _ := post(h, ping, token, func(r *http.Request) { r.Header.Set("DPoP", proof(key, good, now)) })
	if got := answer.Header.Get("WWW-Authenticate"); answer.StatusCode != 401 || !strings.HasPrefix(got, "DPoP ") {
		t.Errorf("a bound token as Bearer: %d %s", answer.StatusCode, got)
	}
}
