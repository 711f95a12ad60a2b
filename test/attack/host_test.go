package attack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"attestd/crypto/assertion"
	"attestd/crypto/dpop"
	"attestd/crypto/jose"
	"attestd/internal/harness"
)

// unknownHost sends a server without --base-url what agents have made for other servers, under
// their names, and asks it to sign in those names.
func unknownHost(ctx context.Context, r *run) (err error) {
	s, _, err := r.Lab.ServeNew(ctx, "--rate-limits", "off", "--base-url", "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	c := &harness.Client{Addr: s.Addr}
	defer c.Close()
	admin, err := c.Register("acme")
	if err != nil {
		return err
	}
	if err := c.Call(201, harness.Request{Method: "POST", Path: "/v1/agents/register", Key: admin, Body: `{"agentId":"bot"}`}, nil); err != nil {
		return err
	}
	a := &insider{company: "acme", agent: "bot"}
	if a.key, err = jose.GenerateKey(jose.ES256); err != nil {
		return err
	}
	proof := func(base, method, path string) string {
		// the URL is sound
		text, _ := dpop.Make(ctx, a.key, dpop.Request{Method: method, URL: base + path}, time.Now())
		return "DPoP: " + text
	}
	enrol := func(host, base string) harness.Request {
		return harness.Request{Method: "POST", Path: keysOf("bot"), Key: admin, Host: host, Header: []string{proof(base, "POST", keysOf("bot"))}, Body: `{"jwk":` + a.key.Key().JWK() + `}`}
	}
	asserts := func(host, base, path, audience string) harness.Request {
		text := forgedJWS(a.key, object{"alg": jose.ES256, "typ": "JWT", "kid": a.kid()}, a.ownClaims(base+audience))
		request := form(path, "", "grant_type", "client_credentials", "client_assertion_type", assertion.Type, "client_assertion", text)
		request.Host = host
		return request
	}
	attempts := 0
	refused := func(what string, request harness.Request, leaks string) error {
		attempts++
		answer, err := c.Do(request)
		if err != nil {
			return err
		}
		names := request.Path == "/v1/agents/bot/token" || strings.HasPrefix(request.Path, "/.well-known/") || strings.Contains(request.Path, "openid-configuration")
		switch {
		case answer.Status < 400 || answer.Status >= 500:
			r.Errorf("%s under the Host %s is %d: %.200s", what, request.Host, answer.Status, answer.Body)
		case !bytes.Contains(answer.Body, []byte("--base-url")):
			r.Errorf("%s under the Host %s does not name the setting: %.200s", what, request.Host, answer.Body)
		case names && bytes.Contains(answer.Body, []byte(leaks)):
			r.Errorf("%s under the Host %s says that the name is ours: %.200s", what, request.Host, answer.Body)
		}
		return nil
	}
	_, port, _ := strings.Cut(s.Addr, ":")
	// which shows that the others are refused for their names
	if err := c.Call(201, enrol(s.Addr, "http://"+s.Addr), nil); err != nil {
		return err
	}
	if err := c.Call(200, asserts(s.Addr, "http://"+s.Addr, tokenPath, tokenPath), nil); err != nil {
		return err
	}
	for _, host := range []string{
		"evil.example", "evil.example:" + port, "localhost", "localhost:1", "127.0.0.1", "10.0.0.1:" + port, "0.0.0.0:" + port, "localhost.evil.example:" + port,
		"127.0.0.1.evil.example:" + port, "[::1]", "[fe80::1]:" + port, "attestd.local",
	} {
		for _, proto := range []string{"http", "https"} {
			base, header := proto+"://"+host, []string{"X-Forwarded-Proto: " + proto, "X-Forwarded-Host: " + s.Addr, "Forwarded: host=" + s.Addr + ";proto=" + proto}
			requests := map[string]harness.Request{
				"an enrolment with a proof":     enrol(host, base),
				"an assertion":                  asserts(host, base, tokenPath, tokenPath),
				"an assertion for the issuer":   asserts(host, base, "/o/acme/token", "/o/acme"),
				"an assertion for its endpoint": asserts(host, base, "/o/acme/token", "/o/acme/token"),
				"a token":                       {Method: "POST", Path: "/v1/agents/bot/token", Key: admin, Host: host, Body: `{"audience":"sts.amazonaws.com"}`},
				"an SVID":                       {Method: "GET", Path: "/v1/agents/bot/svid?audience=a", Key: admin, Host: host},
			}
			for _, path := range []string{
				"/.well-known/oauth-authorization-server/o/acme", "/.well-known/openid-configuration/o/acme", "/o/acme/.well-known/openid-configuration",
				"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/o/acme",
			} {
				requests[path] = harness.Request{Method: "GET", Path: path, Host: host}
			}
			for what, request := range requests {
				request.Header = append(request.Header, header...)
				if err := refused(what, request, base); err != nil {
					return err
				}
			}
		}
	}
	r.Count(attempts, "requests under names of others")
	return nil
}

// exchangedKey is an issuer that exchanges its key under one kid, while other parties sign with
// their own keys.
func exchangedKey(ctx context.Context, r *run) (err error) {
	var keys atomic.Pointer[string]
	var asked atomic.Int64
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Cache-Control", "max-age=3600")
		fmt.Fprint(w, *keys.Load())
	}))
	defer issuer.Close()
	s, _, err := r.Lab.ServeNew(ctx, "--rate-limits", "off", "--federation-allow-private")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	c := &harness.Client{Addr: s.Addr}
	defer c.Close()
	admin, err := c.Register("acme")
	if err != nil {
		return err
	}
	one, err1 := jose.GenerateKey(jose.ES256)
	two, err2 := jose.GenerateKey(jose.ES256)
	stranger, err3 := jose.GenerateKey(jose.ES256)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	publish := func(key *jose.PrivateKey) {
		set := `{"keys":[` + strings.TrimSuffix(key.Key().JWK(), "}") + `,"kid":"k1"}]}`
		keys.Store(&set)
	}
	publish(one)
	if err := c.Call(201, harness.Request{Method: "POST", Path: "/v1/federation", Key: admin, Body: fmt.Sprintf(
		`{"name":"ci","issuer":"https://ci.example","audience":"us","jwksUri":%q,"rules":[{"match":{"sub":"job"},"agentId":"bot","register":true}]}`, issuer.URL)}, nil); err != nil {
		return err
	}
	signIn := func(key *jose.PrivateKey) (int, error) {
		text := forgedJWS(key, object{"alg": jose.ES256, "kid": "k1"}, object{"iss": "https://ci.example", "sub": "job", "aud": "us", "jti": rawID(), "exp": time.Now().Unix() + 300})
		answer, err := c.Do(form("/o/acme/token", "", "grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion", text))
		return answer.Status, err
	}
	expect := func(what string, key *jose.PrivateKey, want int) error {
		status, err := signIn(key)
		if err == nil && status != want {
			r.Errorf("%s is %d, want %d", what, status, want)
		}
		return err
	}
	if err := expect("the issuer's key", one, 200); err != nil {
		return err
	}
	began := time.Now()
	const strangers = 500
	for range strangers {
		if err := expect("a stranger's key under the issuer's kid", stranger, 400); err != nil {
			return err
		}
	}
	if n, most := asked.Load(), 1+int64(time.Since(began)/time.Minute)+1; n > most {
		r.Errorf("%d signatures of strangers made the issuer be asked %d times", strangers, n)
	}
	r.Count(strangers, "signatures of strangers")
	r.Count(int(asked.Load()), "fetches")
	if short() {
		return nil
	}
	publish(two)
	select { // after which a set may be fetched again
	case <-time.After(61 * time.Second):
	case <-ctx.Done():
		return ctx.Err()
	}
	return errors.Join(expect("the new key under the former kid", two, 200), expect("the withdrawn key", one, 400))
}
