package mcptest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/sdk/attestd"
)

// nodeWith is Node with a package, which is needed.
func nodeWith(t *testing.T, name string) (node string) {
	t.Helper()
	node = testenv.Path(t, "node")
	if _, err := os.Stat(filepath.Join("testdata", "node_modules", name)); err != nil {
		testenv.Missing(t, "there is no "+name+": npm ci --prefix test/mcp/testdata")
	}
	return node
}

// The TypeScript client finds the issuer from a 401, signs in by a secret or a key, gets a token
// for the resource, bound to a key by DPoP where it is to be, asks for a wider scope where a tool
// needs it, and is refused one that it does not have.
func TestTypeScriptClientAuthorizes(t *testing.T) {
	t.Parallel()
	node := nodeWith(t, "@modelcontextprotocol/client")
	s := serve(t)
	p := s.resource()
	of := func(made attestd.OAuthClient, scope string) object {
		return object{"clientId": made.ClientID, "clientSecret": made.ClientSecret, "scope": scope}
	}
	signing, private := s.signingClient()
	plan, err := json.Marshal(object{"url": p.url, "issuer": s.issuer(), "clients": object{
		"writer":   of(s.oauthClient(attestd.Writer), ""),
		"reader":   of(s.oauthClient(attestd.Reader), ""),
		"narrow":   of(s.oauthClient(attestd.Writer), "reader"),
		"with key": object{"clientId": signing, "privateKey": private},
		"bound":    object{"clientId": signing, "privateKey": private, "dpop": true},
	}})
	must.OK(t, err)
	run := exec.CommandContext(t.Context(), node, "authorize.mjs", string(plan))
	run.Dir, run.Env = "testdata", append(os.Environ(), "NODE_EXTRA_CA_CERTS="+p.roots)
	run.Stderr = testLog{t}
	out, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	var done map[string]struct{ Verify, Attest string }
	must.OK(t, json.Unmarshal(out, &done))
	for name, c := range done {
		attests := c.Attest == "ok"
		if strings.HasPrefix(name, "reader") {
			attests = strings.HasPrefix(c.Attest, "scope must be of")
		}
		if c.Verify != "ok" || !attests {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if len(done) != 10 {
		t.Errorf("%d sessions", len(done))
	}
}

type object = map[string]any

// signingClient creates an OAuth client that signs assertions, and returns its private key.
func (s *service) signingClient() (id string, private json.RawMessage) {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(s.t, err)
	private, err = json.Marshal(jose.JSONWebKey{Key: key, Algorithm: "ES256"})
	must.OK(s.t, err)
	body, err := json.Marshal(object{"role": "writer", "jwks": jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), Algorithm: "ES256"}}}})
	must.OK(s.t, err)
	r, err := http.NewRequestWithContext(s.t.Context(), "POST", "http://"+s.addr+"/v1/oauth/clients", bytes.NewReader(body))
	must.OK(s.t, err)
	r.Header.Set("Authorization", "Bearer "+s.key)
	answer, err := http.DefaultClient.Do(r)
	must.OK(s.t, err)
	defer answer.Body.Close()
	var made attestd.OAuthClient
	must.OK(s.t, json.NewDecoder(answer.Body).Decode(&made))
	return made.ClientID, private
}

// The project's own conformance suite reads the issuer's metadata as it is. Of what it demands, one
// thing cannot be: the response type of a browser's sign-in, which the issuer does not have. (Of
// its two scenarios for authorization servers the other one is such a sign-in.)
func TestConformanceOfIssuerMetadata(t *testing.T) {
	t.Parallel()
	node := nodeWith(t, "@modelcontextprotocol/conformance")
	s := serve(t)
	folder := t.TempDir()
	suite, err := filepath.Abs(filepath.Join("testdata", "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js"))
	must.OK(t, err)
	shim, err := filepath.Abs(filepath.Join("testdata", "glob.mjs"))
	must.OK(t, err)
	run := exec.CommandContext(t.Context(), node, "--import", shim, suite,
		"authorization", "--url", s.issuer(), "--scenario", "authorization-server-metadata-endpoint", "--output-dir", folder)
	out, err := run.CombinedOutput()
	found, _ := filepath.Glob(filepath.Join(folder, "*", "checks.json"))
	if len(found) != 1 {
		t.Fatalf("%v: no result\n%s", err, out)
	}
	text, err := os.ReadFile(found[0])
	must.OK(t, err)
	var checks []struct{ ID, Status, ErrorMessage string }
	must.OK(t, json.Unmarshal(text, &checks))
	want := map[string]string{
		"authorization-server-metadata":      `FAILURE Response body does not include valid "response_types_supported" claim`,
		"authorization-server-metadata-cimd": `WARNING Authorization server metadata does not include "client_id_metadata_document_supported"`,
	}
	for _, c := range checks {
		if got := c.Status + " " + c.ErrorMessage; got != want[c.ID] {
			t.Errorf("%s: %s", c.ID, got)
		}
		delete(want, c.ID)
	}
	if len(want) != 0 {
		t.Errorf("not checked: %v", want)
	}
}
