package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	api "attestd/sdk/attestd"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// clientSections are those on the two clients, one after the other, to the end of the page.
var clientSections = regexp.MustCompile(`(?s)\n## TypeScript\n(.*)`)

var clientExample = regexp.MustCompile("(?s)```(js|python)\n(.*?)```")

// The examples of the TypeScript and Python clients in docs/agents/clients.md work unchanged.
func TestDocumentedClientsWork(t *testing.T) {
	testenv.Concurrent(t)
	othersRun(t)
	text, err := os.ReadFile("../docs/agents/clients.md")
	must.OK(t, err)
	sections := clientSections.FindSubmatch(text)
	if sections == nil {
		t.Fatal("docs/agents/clients.md has no section on the TypeScript client")
	}
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	c := s.register(t, "acme")
	var key struct{ Fingerprint string }
	c.call(t, 200, "GET", "/v1/ca/public-key?companyId=acme", "", &key)
	signers := s.register(t, "signers")
	signers.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"deploy-bot"}`, nil)
	admin, err := api.New(api.Config{URL: s.URL, Credential: api.Key(signers.key)})
	must.OK(t, err)
	defer admin.Close()
	agentKey, err := api.NewAgentKey(api.EdDSA)
	must.OK(t, err)
	_, err = admin.EnrolKey(t.Context(), "deploy-bot", agentKey, api.NewEnrolledKey{})
	must.OK(t, err)
	counts := map[string]int{}
	for _, example := range clientExample.FindAllStringSubmatch(string(sections[1]), -1) {
		language, script := example[1], example[2]
		counts[language]++
		t.Run(fmt.Sprint(language, counts[language]), func(t *testing.T) {
			dir := t.TempDir()
			must.OK(t, api.AgentFile{Key: agentKey, SPIFFEID: "spiffe://attestd.local/company/signers/agent/deploy-bot", URL: s.URL}.Create(filepath.Join(dir, "deploy-bot.jwk")))
			var cmd *exec.Cmd
			if language == "js" {
				builtClient(t)
				installed, err := filepath.Abs(typescript)
				must.OK(t, err)
				must.OK(t, os.Mkdir(filepath.Join(dir, "node_modules"), 0o700))
				must.OK(t, os.Symlink(installed, filepath.Join(dir, "node_modules", "attestd")))
				must.OK(t, os.WriteFile(filepath.Join(dir, "example.mjs"), []byte(script), 0o600))
				cmd = exec.CommandContext(t.Context(), testenv.Path(t, "node"), "example.mjs")
			} else {
				must.OK(t, os.CopyFS(filepath.Join(dir, "attestd"), os.DirFS("../sdk/python/attestd")))
				must.OK(t, os.WriteFile(filepath.Join(dir, "example.py"), []byte(script), 0o600))
				cmd = exec.CommandContext(t.Context(), pythonWithCryptography(t), "example.py")
			}
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "ATTESTD_URL="+s.URL, "ATTESTD_KEY="+c.key, "FINGERPRINT="+key.Fingerprint)
			out, err := cmd.CombinedOutput()
			if err != nil || len(out) == 0 || strings.Contains(string(out), "ALARM") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	if counts["js"] < 3 || counts["python"] < 3 {
		t.Errorf("docs/agents/clients.md has %v examples of the clients", counts)
	}
}
