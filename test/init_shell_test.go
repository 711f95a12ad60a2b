package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"attestd/internal/must"
	"attestd/internal/notary"
	"attestd/internal/testenv"
)

// shellPayloads would each make a file named "ran" if a shell met them outside of single quotes.
var shellPayloads = []string{
	"svc_$(touch ran)", "svc_`touch ran`", "svc_a;touch ran", "svc_a\ntouch ran", "svc_a'$(touch ran)'", "svc_a\" $(touch ran) \"", "svc_a&touch ran", "svc_a | touch ran",
	"'; touch ran; '", "", "svc_a b", "svc_a\x1b[2J", "svc_é",
}

// fakeServer answers what `attestd init` asks, with this key for a new company and this for a new
// agent.
func fakeServer(t *testing.T, prefix, companyKey, agentKey string) *httptest.Server {
	t.Helper()
	var recorded atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		quoted := func(s string) string { b, _ := json.Marshal(s); return string(b) }
		switch path := strings.TrimPrefix(r.URL.Path, prefix); r.Method + " " + path {
		case "POST /v1/companies":
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"companyId":"local","apiKey":%s,"publicKey":"p"}`, quoted(companyKey))
		case "GET /v1/company":
			fmt.Fprint(w, `{"companyId":"local"}`)
		case "GET /v1/agents/claude-code":
			fmt.Fprint(w, `{"agentId":"claude-code","spiffeId":"s","registeredAt":"2026-11-22T00:00:00.000Z"}`)
		case "POST /v1/keys":
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"key":%s,"label":"hooks","role":"writer"}`, quoted(agentKey))
		case "POST /v1/attest":
			w.WriteHeader(http.StatusCreated)
			body, _ := io.ReadAll(r.Body)
			recorded.Store(notary.Records(body, "local")[0])
			fmt.Fprint(w, recorded.Load())
		case "GET /v1/chain":
			fmt.Fprintln(w, recorded.Load())
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"error":"no %s %s"}`, r.Method, path)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// initIn runs `attestd init claude-code --unsigned` in a folder that is home, project and
// configuration at once.
func initIn(t *testing.T, folder string, args ...string) (out string, err error) {
	t.Helper()
	program, built := binary(t)
	must.OK(t, built)
	cmd := exec.CommandContext(t.Context(), program, append([]string{"init", "claude-code"}, args...)...)
	cmd.Dir, cmd.Env = folder, []string{"HOME=" + folder, "XDG_CONFIG_HOME=" + folder, "XDG_STATE_HOME=" + folder, "PATH=" + os.Getenv("PATH"), "ATTESTD_UNSIGNED=true"}
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// A server's answer reaches no shell: a key that is not of the form of keys is refused before
// anything is written or shown.
func TestInitRefusesMalformedKeys(t *testing.T) {
	t.Parallel()
	for i, payload := range shellPayloads {
		for _, of := range []string{"company", "agent"} {
			t.Run(fmt.Sprint(of, i), func(t *testing.T) {
				t.Parallel()
				company, agent := payload, "svc_good"
				if of == "agent" {
					company, agent = agent, company
				}
				folder := t.TempDir()
				out, err := initIn(t, folder, "--url", fakeServer(t, "", company, agent).URL, "--write")
				if err == nil || !strings.Contains(out, "the server's response has no valid API key") {
					t.Errorf("%v: %s", err, out)
				}
				if len(payload) > 4 && strings.Contains(out, payload) {
					t.Errorf("the key is shown: %q", out)
				}
				if left, _ := os.ReadDir(folder); len(left) > 0 {
					t.Errorf("%v was written", left)
				}
			})
		}
	}
}

// The shell lines that init writes and prints have the intended meaning for any address and any
// names of folders.
func TestInitQuotesForShells(t *testing.T) {
	t.Parallel()
	sh := testenv.Path(t, "sh")
	for i, prefix := range []string{"/$(touch${IFS}ran)", "/`touch${IFS}ran`", "/;touch${IFS}ran", "/'$(touch${IFS}ran)'", "/&touch${IFS}ran&", "/|touch${IFS}ran", "/a'b"} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join(t.TempDir(), "a $(touch ran) 'folder'")
			must.OK(t, os.Mkdir(folder, 0o700))
			given := fakeServer(t, prefix, "svc_admin", "svc_writer").URL + prefix
			parsed, err := url.Parse(given)
			must.OK(t, err)
			url := parsed.String() // in its normal form
			for _, kind := range []string{"--command=false", "--command"} {
				if out, err := initIn(t, folder, "--url", given, "--write", kind); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			run := func(script string, args ...string) string {
				cmd := exec.CommandContext(t.Context(), sh, append([]string{"-c", script, "sh"}, args...)...)
				cmd.Dir, cmd.Env = folder, []string{"HOME=" + folder, "XDG_CONFIG_HOME=" + folder, "XDG_STATE_HOME=" + folder, "PATH=" + os.Getenv("PATH")}
				cmd.Stdin = strings.NewReader(`{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash","tool_use_id":"1"}`)
				out, err := cmd.Output()
				if err != nil {
					t.Errorf("%s: %v %s", script, err, out)
				}
				return string(out)
			}
			if got := run(`set -a; . "$1"; printf '%s %s' "$ATTESTD_URL" "$ATTESTD_KEY"`, filepath.Join(folder, "attestd", "env")); got != url+" svc_writer" {
				t.Errorf("a shell reads %q, want %q", got, url)
			}
			out, err := initIn(t, folder, "--url", given, "--write") // reads what it wrote
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			start := regexp.MustCompile(`(?m)^start +(.*)claude$`).FindStringSubmatch(out)
			if start == nil {
				t.Fatal(out)
			}
			if got := run(start[1] + `printf %s "$ATTESTD_URL"`); got != url {
				t.Errorf("the start line sets %q, want %q", got, url)
			}
			if out, err := initIn(t, folder, "--url", url, "--write", "--command"); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			var settings struct {
				Hooks map[string][]struct{ Hooks []struct{ Command string } }
			}
			text, err := os.ReadFile(filepath.Join(folder, ".claude", "settings.local.json"))
			must.OK(t, err)
			must.OK(t, json.Unmarshal(text, &settings))
			if got := run(settings.Hooks["PreToolUse"][0].Hooks[0].Command); strings.TrimSpace(got) != "{}" {
				t.Errorf("the hook answers %q", got)
			}
			if _, err := os.Stat(filepath.Join(folder, "ran")); err == nil {
				t.Error("a payload ran")
			}
		})
	}
}
