package test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// identityProvider is oidc-provider, which signs in whoever is at the browser.
type identityProvider struct {
	issuer string
	to     io.Writer
	from   *bufio.Scanner
}

func startIdentityProvider(t *testing.T, node string) *identityProvider {
	cmd := exec.CommandContext(t.Context(), node, "testdata/people_provider.mjs", "attestd", "a-secret-of-this-service-only")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must.OK(t, err)
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	p := &identityProvider{to: in, from: bufio.NewScanner(out)}
	p.issuer = p.reads(t)
	return p
}

func (p *identityProvider) reads(t *testing.T) string {
	t.Helper()
	if !p.from.Scan() {
		t.Fatalf("the identity provider has ended: %v", p.from.Err())
	}
	return p.from.Text()
}

func (p *identityProvider) tell(t *testing.T, line string) {
	t.Helper()
	_, err := fmt.Fprintln(p.to, line)
	must.OK(t, err)
	p.reads(t)
}

// signIn goes the way of a browser from the service to the provider and back. The two have cookies
// apart, although they are on one host.
func (p *identityProvider) signIn(t *testing.T, service string) (*http.Response, string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must.OK(t, err)
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	theirs, ours := &http.Client{Jar: jar, CheckRedirect: stay}, &http.Client{CheckRedirect: stay}
	own := map[string]string{}
	next := service + "/v1/people/oidc"
	for range 20 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, next, nil)
		must.OK(t, err)
		client, isOwn := theirs, strings.HasPrefix(next, service+"/")
		if isOwn {
			client = ours
			for name, value := range own {
				r.AddCookie(&http.Cookie{Name: name, Value: value})
			}
		}
		answer, err := client.Do(r)
		must.OK(t, err)
		text, err := io.ReadAll(answer.Body)
		must.OK(t, err)
		_ = answer.Body.Close()
		if isOwn {
			for _, c := range answer.Cookies() {
				own[c.Name] = c.Value
			}
		}
		location := answer.Header.Get("Location")
		if location == "" || strings.Contains(location, "/#/") {
			return answer, own["__Host-attestd-session"] + string(text)
		}
		to, err := r.URL.Parse(location)
		must.OK(t, err)
		next = to.String()
	}
	t.Fatal("it never ends")
	return nil, ""
}

// People sign in with their accounts at oidc-provider, by the flags of serve and a file of rules.
func TestPeopleSignInAtOIDCProvider(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	p := startIdentityProvider(t, nodeWith(t, "jose", "oidc-provider"))
	dir := t.TempDir()
	secret, rules := filepath.Join(dir, "secret"), filepath.Join(dir, "rules.json")
	must.OK(t, os.WriteFile(secret, []byte("a-secret-of-this-service-only\n"), 0o600))
	must.OK(t, os.WriteFile(rules, []byte(`[
		{"match": {"groups": "ops", "preferred_username": "*"}, "companyId": "acme", "personId": "{preferred_username}", "roles": ["admin"], "groups": ["{groups}"]},
		{"match": {"email": "*@acme.example", "email_verified": true, "preferred_username": "*"}, "companyId": "acme", "personId": "{preferred_username}"}
	]`), 0o600))
	s := serve(t, storetest.New(t), "--rate-limits", "off", "--federation-allow-private",
		"--oidc-issuer", p.issuer, "--oidc-client-id", "attestd", "--oidc-client-secret-file", secret, "--oidc-rules", rules)
	s.register(t, "acme")
	p.tell(t, s.URL+"/v1/people/oidc/callback")

	for _, c := range []struct {
		account         string
		status          int
		person, contain string
	}{
		{`{"sub":"1","preferred_username":"ann","name":"Ann Lee","groups":["ops","staff"]}`, 303, "ann", `"roles":["admin"],"groups":["ops"]`},
		{`{"sub":"2","preferred_username":"bob","email":"bob@acme.example","email_verified":true}`, 303, "bob", `"email":"bob@acme.example","roles":["reader"],"groups":[]`},
		{`{"sub":"1","preferred_username":"ann","email":"ann@acme.example","email_verified":true}`, 303, "ann", `"roles":["admin"],"groups":["ops"]`},
		{`{"sub":"3","preferred_username":"bob","email":"bob@acme.example","email_verified":true}`, 403, "", "OIDC_NO_PERSON"},
		{`{"sub":"4","preferred_username":"eve","email":"eve@acme.example","email_verified":false}`, 403, "", "OIDC_NO_RULE"},
	} {
		p.tell(t, c.account)
		answer, session := p.signIn(t, s.URL)
		if answer.StatusCode != c.status {
			t.Fatalf("%s: %d %s", c.account, answer.StatusCode, session)
		}
		if c.person == "" {
			if !strings.Contains(session, c.contain) || strings.HasPrefix(session, "ses_") {
				t.Errorf("%s: %s", c.account, session)
			}
			continue
		}
		session, _, _ = strings.Cut(session, "{")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/people/me", nil)
		must.OK(t, err)
		r.Header.Set("X-Attestd-Console", "1")
		r.AddCookie(&http.Cookie{Name: "__Host-attestd-session", Value: session})
		answer, err = http.DefaultClient.Do(r)
		must.OK(t, err)
		me, err := io.ReadAll(answer.Body)
		must.OK(t, err)
		_ = answer.Body.Close()
		var is struct{ PersonID string }
		must.OK(t, json.Unmarshal(me, &is))
		if is.PersonID != c.person || !strings.Contains(string(me), c.contain) {
			t.Errorf("%s: %s", c.account, me)
		}
	}
}
