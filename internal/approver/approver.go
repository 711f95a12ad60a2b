// Package approver is a person with a passkey at a running service, for tests of programs that ask
// for approvals. It does what the console's pages do.
package approver

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"attestd/crypto/passkey"
	"attestd/crypto/passkey/passkeytest"
	"attestd/internal/must"
)

// Person is somebody with the role approver, who is signed in.
type Person struct {
	*passkeytest.Authenticator
	service, admin string // its address, and the key of an admin
	origin         string // that of the console
	handle         string // user handle of the passkey
	cookie         string
}

// patience bounds every wait.
const patience = time.Minute

// New adds a person to the company of an admin's key, and has the person enrol a passkey. The
// service is on this machine.
func New(t testing.TB, service, admin, id string) *Person {
	t.Helper()
	u, err := url.Parse(service)
	must.OK(t, err)
	_, port, err := net.SplitHostPort(u.Host)
	must.OK(t, err)
	p := &Person{Authenticator: passkeytest.New(t, passkey.ES256), service: service, admin: admin, origin: "http://localhost:" + port}
	p.asAdmin(t, "POST", "/v1/people", map[string]any{"personId": id, "name": id, "roles": []string{"approver"}})
	link := p.asAdmin(t, "POST", "/v1/people/"+id+"/invitations", nil)["url"].(string)
	_, secret, _ := strings.Cut(link, "#/join/")
	options := p.inConsole(t, "/v1/people/enrol/options", map[string]any{"invitation": secret})
	publicKey := options["publicKey"].(map[string]any)
	p.handle = publicKey["user"].(map[string]any)["id"].(string)
	made := p.Registration(p.Create(t, p.origin, "localhost", challengeOf(t, publicKey)))
	p.inConsole(t, "/v1/people/enrol", map[string]any{"invitation": secret, "credential": made})
	return p
}

// Pending waits until the company has a pending approval other than those before, and returns its
// ID.
func (p *Person) Pending(t testing.TB, before ...string) string {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		for _, one := range p.asAdmin(t, "GET", "/v1/approvals?state=pending", nil)["approvals"].([]any) {
			if id := one.(map[string]any)["approvalId"].(string); !strings.Contains(strings.Join(before, " "), id) {
				return id
			}
		}
	}
	t.Fatal("nobody has asked for an approval")
	return ""
}

// Decide signs a decision about an approval: approve or deny.
func (p *Person) Decide(t testing.TB, id, verdict, reason string) {
	t.Helper()
	choice := map[string]any{"verdict": verdict}
	if reason != "" {
		choice["reason"] = reason
	}
	options := p.inConsole(t, "/v1/approvals/"+id+"/options", choice)
	choice["credential"] = p.Assertion(p.Get(t, p.origin, "localhost", challengeOf(t, options["publicKey"].(map[string]any))), p.handle)
	p.inConsole(t, "/v1/approvals/"+id+"/decision", choice)
}

func challengeOf(t testing.TB, publicKey map[string]any) []byte {
	t.Helper()
	challenge, err := base64.RawURLEncoding.DecodeString(publicKey["challenge"].(string))
	must.OK(t, err)
	return challenge
}

func (p *Person) asAdmin(t testing.TB, method, path string, body any) map[string]any {
	t.Helper()
	return p.send(t, method, path, body, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+p.admin) })
}

func (p *Person) inConsole(t testing.TB, path string, body any) map[string]any {
	t.Helper()
	return p.send(t, "POST", path, body, func(r *http.Request) {
		r.Host = strings.TrimPrefix(p.origin, "http://")
		r.Header.Set("Origin", p.origin)
		r.Header.Set("X-Attestd-Console", "1")
		if p.cookie != "" {
			r.Header.Set("Cookie", p.cookie)
		}
	})
}

func (p *Person) send(t testing.TB, method, path string, body any, as func(*http.Request)) (answer map[string]any) {
	t.Helper()
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		must.OK(t, err)
		sent = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, p.service+path, sent)
	must.OK(t, err)
	r.Header.Set("Content-Type", "application/json")
	as(r)
	resp, err := (&http.Client{Timeout: patience}).Do(r)
	must.OK(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must.OK(t, err)
	if resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
	for _, c := range resp.Cookies() {
		p.cookie = c.Name + "=" + c.Value
	}
	must.OK(t, json.Unmarshal(text, &answer))
	return answer
}
