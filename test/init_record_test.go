package test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// Every kind of init ends with a record that it has read back, also when it is run again; where the
// log cannot be read, or has another record there, it fails and writes no settings.
func TestEveryInitReadsItsRecordBack(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	program, err := binary(t)
	must.OK(t, err)
	help, err := attestd(t, "init", "--help")
	must.OK(t, err)
	_, list, _ := strings.Cut(help, "Available Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	kinds := regexp.MustCompile(`(?m)^  (\S+)`).FindAllStringSubmatch(list, -1)
	if len(kinds) < 4 {
		t.Fatalf("init has the kinds %v\n%s", kinds, help)
	}
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	key := s.register(t, "acme").key
	to, err := url.Parse(s.URL)
	must.OK(t, err)
	// records is what a gateway answers for the records of the log
	gateway := func(records string) *httptest.Server {
		proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
		g := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if records != "" && r.URL.Path == "/v1/chain" {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(records))
				return
			}
			proxy.ServeHTTP(w, r)
		}))
		t.Cleanup(g.Close)
		return g
	}
	readBack := regexp.MustCompile(`(?m)^record +[0-9]+ at \S+ by \S+, read back: [0-9a-f]{64}$`)
	for _, kind := range kinds {
		for name, records := range map[string]string{"reads": "", "nothing there": "\n", "a page": "<html>"} {
			for _, flag := range [][]string{{}, {"--unsigned"}} {
				if kind[1] == "mcp" && len(flag) > 0 {
					continue
				}
				t.Run(kind[1]+", "+name+strings.Join(flag, ""), func(t *testing.T) {
					t.Parallel()
					home, at := t.TempDir(), gateway(records).URL
					if records == "" {
						at = s.URL
					}
					mcp := `{"mcpServers":{"docs":{"type":"http","url":"https://mcp.example.com/mcp"}}}`
					must.OK(t, os.WriteFile(filepath.Join(home, ".mcp.json"), []byte(mcp), 0o600))
					settings := func(own string) []string {
						if kind[1] == "mcp" && own == "mcp" {
							return []string{"--settings", filepath.Join(home, ".mcp.json")}
						}
						return []string{"--settings", filepath.Join(home, "settings.json")}
					}
					run := func(kind, at string, more ...string) (string, error) {
						args := append([]string{"init", kind, "--url", at, "--write"}, settings(kind)...)
						cmd := exec.Command(program, append(args, more...)...)
						cmd.Env = append(withoutAttestd(os.Environ()), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_STATE_HOME="+home, "ATTESTD_KEY="+key)
						cmd.Dir = home
						out, err := cmd.CombinedOutput()
						return string(out), err
					}
					for range 2 {
						out, err := run(kind[1], at, flag...)
						if (err == nil) != (records == "") || readBack.MatchString(out) != (err == nil) {
							t.Errorf("%v\n%s", err, out)
						}
					}
					text, _ := os.ReadFile(filepath.Join(home, "settings.json"))
					if now, err := os.ReadFile(filepath.Join(home, ".mcp.json")); err != nil || kind[1] == "mcp" && string(now) != mcp {
						text = append(text, now...)
					}
					if written := len(text) > 0; written != (records == "") {
						t.Errorf("settings are %q", text)
					}
				})
			}
		}
	}
}
