package interop

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// A workload that speaks by go-spiffe's configuration of mutual TLS, with its X.509-SVID, is its
// agent.
func TestX509SVIDSignsIn(t *testing.T) {
	t.Parallel()
	dir, servers, workloads := t.TempDir(), testenv.NewCA(t), testenv.NewCA(t)
	cert, key := servers.Server(t)
	for name, text := range map[string][]byte{"tls.crt": cert, "tls.key": key, "clients.pem": workloads.PEM()} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	base, _ := serve(t, filepath.Join(dir, "attestd.db"), "--trust-domain", "example.org",
		"--tls-cert", filepath.Join(dir, "tls.crt"), "--tls-key", filepath.Join(dir, "tls.key"), "--tls-client-ca", filepath.Join(dir, "clients.pem"))
	post := func(config *tls.Config, path, credential, body string) (status int, answer struct{ APIKey string }) {
		t.Helper()
		transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequest("POST", base+path, strings.NewReader(body))
		must.OK(t, err)
		if credential != "" {
			req.Header.Set("Authorization", "Bearer "+credential)
		}
		res, err := (&http.Client{Transport: transport, Timeout: patience}).Do(req)
		must.OK(t, err)
		defer res.Body.Close()
		must.OK(t, json.NewDecoder(res.Body).Decode(&answer))
		return res.StatusCode, answer
	}
	plain := &tls.Config{RootCAs: servers.Pool()}
	_, acme := post(plain, "/v1/companies", "", `{"companyId":"acme"}`)
	if status, _ := post(plain, "/v1/agents/register", acme.APIKey, `{"agentId":"bot"}`); status != 201 {
		t.Fatalf("register: %d", status)
	}
	// as the Workload API hands it out: with an intermediate
	svidPEM, keyPEM := workloads.Intermediate(t).Client(t, "spiffe://example.org/company/acme/agent/bot")
	svid, err := x509svid.Parse(svidPEM, keyPEM)
	must.OK(t, err)
	config := tlsconfig.MTLSWebClientConfig(svid, servers.Pool())
	for agent, want := range map[string]int{"bot": 201, "other": 403} {
		if status, _ := post(config, "/v1/attest", "", `{"agentId":"`+agent+`","actionType":"deploy","payload":1}`); status != want {
			t.Errorf("%s: %d, want %d", agent, status, want)
		}
	}
}
