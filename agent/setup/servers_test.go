package setup

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// The servers over HTTP are rewritten, their headers go into the environment, everything else stays
// byte for byte, and Restore makes the file what it was.
func TestServersAreRewritten(t *testing.T) {
	settings := "{\n  \"other\": [1,  2],\n  \"mcpServers\": {\n" +
		`    "docs" :  { "type": "http", "url": "https://mcp.example.com/mcp",  "headers": {"authorization": "Bearer ${TOKEN}", "X-Tools": "a,b"}, "timeout": 7 },` + "\n" +
		`    "gemini": {"httpUrl":"https://g.example/mcp"}, "local": {"command":"x"},` + "\n" +
		`    "old": {"type":"sse","url":"https://o.example/sse"}, "older":{"url":"https://o.example/sse"},` + "\n" +
		`    "secret": {"url":"https://s.example/mcp?key=1"}, "odd": {"url":7}` + "\n  }\n}\n"
	s := Servers{Program: "attestd", Agent: "claude", FailClosed: true}
	rewritten, changes, skipped, err := s.Rewrite([]byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"{\n  \"other\": [1,  2],\n",
		`"docs" :  {"type":"stdio","timeout":7,"command":"attestd","args":["mcp","--agent","claude","--server","docs","--fail","closed","--upstream","https://mcp.example.com/mcp","--header-env","Authorization=ATTESTD_HEADER_1","--header-env","X-Tools=ATTESTD_HEADER_2"],"env":{"ATTESTD_HEADER_1":"Bearer ${TOKEN}","ATTESTD_HEADER_2":"a,b"}},`,
		`"gemini": {"command":"attestd","args":["mcp","--agent","claude","--server","gemini","--fail","closed","--upstream","https://g.example/mcp","--sign-in"]}, "local": {"command":"x"},`,
		`"old": {"type":"sse","url":"https://o.example/sse"}, "older":{"url":"https://o.example/sse"},`,
	} {
		if !strings.Contains(string(rewritten), want) {
			t.Errorf("no %s in %s", want, rewritten)
		}
	}
	if len(changes) != 2 || len(skipped) != 5 {
		t.Errorf("%v, %q", changes, skipped)
	}
	if again, more, _, err := s.Rewrite(rewritten); err != nil || string(again) != string(rewritten) || len(more) != 0 {
		t.Errorf("a second time: %s, %v", again, err)
	}
	restored, left, err := Restore(rewritten, changes)
	if err != nil || string(restored) != settings || len(left) != 0 {
		t.Errorf("%s, %v, %v", restored, left, err)
	}
	// an entry that somebody has changed since stays
	edited := strings.Replace(string(rewritten), `"timeout":7`, `"timeout":8`, 1)
	restored, left, err = Restore([]byte(edited), changes)
	if err != nil || len(left) != 1 || left[0].Name != "docs" || !strings.Contains(string(restored), `"timeout":8`) {
		t.Errorf("%s, %v, %v", restored, left, err)
	}
	for _, bad := range []string{"", "{", `{"mcpServers":{"a":{},"a":{}}}`, "// x\n{}", "[]"} {
		if _, _, _, err := s.Rewrite([]byte(bad)); err == nil {
			t.Errorf("%q was understood", bad)
		}
	}
}

// Where a decision has to allow a call, entries ask for it, and those that run without are named.
func TestServersAreGuarded(t *testing.T) {
	t.Parallel()
	s := Servers{Program: "attestd", Agent: "claude", Decided: true}
	rewritten, changes, skipped, err := s.Rewrite([]byte(`{"servers":{"a":{"url":"https://a.example/mcp"},` +
		`"b":{"command":"attestd","args":["mcp","--require","policy","--","b"]},"c":{"command":"attestd","args":["mcp","--require=policy","--","c"]},` +
		`"d":{"command":"attestd","args":["mcp","--","d","--require","policy"]},"e":{"command":"attestd","args":["mcp","--require"]}}}`))
	if err != nil || len(changes) != 1 || !strings.Contains(string(rewritten), `"--require","policy","--upstream","https://a.example/mcp"`) {
		t.Fatalf("%s, %v, %v", rewritten, changes, err)
	}
	const already = ": it runs attestd mcp already"
	const lacks = already + ", which forwards calls that nothing has decided: add --require policy to its args"
	if want := []string{"b" + already, "c" + already, "d" + lacks, "e" + lacks}; !slices.Equal(skipped, want) {
		t.Errorf("%q, want %q", skipped, want)
	}
}

// The OAuth client that an entry names becomes that of the proxy, but for one with a secret.
func TestServersKeepTheirOAuthClient(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		`{"url":"https://a.example/mcp","oauth":{"clientId":"c1","callbackPort":8765}}`:                          `"--sign-in","--client-id","c1","--redirect-url","http://localhost:8765/callback"]}`,
		`{"httpUrl":"https://a.example/mcp","oauth":{"clientId":"c1","redirectUri":"http://localhost:7777/cb"}}`: `"--sign-in","--client-id","c1","--redirect-url","http://localhost:7777/cb"]}`,
		`{"url":"https://a.example/mcp","oauth":{"enabled":true}}`:                                               `"--sign-in"]}`,
		`{"url":"https://a.example/mcp","oauth":{"clientId":"c1","clientSecret":"hush"}}`:                        "",
		`{"url":"https://a.example/mcp","oauth":7}`:                                                              "",
	} {
		settings := `{"mcpServers":{"a":` + entry + `}}`
		rewritten, changes, skipped, err := Servers{Program: "attestd", Agent: "claude"}.Rewrite([]byte(settings))
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			if len(changes) != 0 || len(skipped) != 1 || strings.Contains(skipped[0], "hush") || string(rewritten) != settings {
				t.Errorf("%s: %q, %s", entry, skipped, rewritten)
			}
		} else if !strings.HasSuffix(string(rewritten), want+"}}") {
			t.Errorf("%s: %s", entry, rewritten)
		}
	}
}

// An entry with a member that attestd mcp does not carry over stays as it is, and is named: without
// it the server would be used otherwise than before. So does one with which it would not start.
func TestEntriesThatAreNotUnderstoodStay(t *testing.T) {
	t.Parallel()
	s := Servers{Program: "attestd", Agent: "claude", Accepts: func(args []string, environment map[string]string) error {
		if slices.Contains(args, "https://refused.example/mcp") || environment["ATTESTD_HEADER_1"] == "refused" {
			return errors.New("it says why")
		}
		return nil
	}}
	for entry, want := range map[string]string{
		`{"type":"http","url":"https://a.example/mcp","headersHelper":"/opt/x"}`:                 `"headersHelper"`,
		`{"httpUrl":"https://a.example/mcp","authProviderType":"google_credentials"}`:            `"authProviderType"`,
		`{"url":"https://a.example/mcp","Headers":{"Authorization":"x"}}`:                        `"Headers"`,
		`{"url":"https://a.example/mcp","auth":{}}`:                                              `"auth"`,
		`{"httpUrl":"https://a.example/mcp","oauth":{"clientId":"a","scopes":["x"]}}`:            `"scopes" of its oauth`,
		`{"httpUrl":"https://a.example/mcp","url":"https://a.example/sse"}`:                      "two addresses",
		`{"type":"sse","url":"https://a.example/mcp"}`:                                           "HTTP+SSE",
		`{"type":"ws","url":"wss://a.example/mcp"}`:                                              "not known",
		`{"url":"https://refused.example/mcp"}`:                                                  "it says why",
		`{"url":"https://a.example/mcp","headers":{"X":"refused"}}`:                              "it says why",
		`{"command":"/usr/bin/attestd","args":["mcp","--upstream","https://a.example/mcp"]}`:     "already",
		`{"type":"http","url":"https://a.example/mcp","timeout":1,"trust":true,"description":1}`: "",
	} {
		settings := `{"mcpServers":{"a":` + entry + `}}`
		rewritten, changes, skipped, err := s.Rewrite([]byte(settings))
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			if len(changes) != 1 || !strings.Contains(string(rewritten), `"timeout":1,"trust":true,"description":1`) {
				t.Errorf("%s: %s, %q", entry, rewritten, skipped)
			}
			continue
		}
		if string(rewritten) != settings || len(changes) > 0 || len(skipped) != 1 || !strings.Contains(skipped[0], "a: ") || !strings.Contains(skipped[0], want) {
			t.Errorf("%s: %s, %q, want %s", entry, rewritten, skipped, want)
		}
	}
	// in the settings of Gemini CLI, which alone know httpUrl, url is of HTTP+SSE
	_, changes, skipped, err := s.Rewrite([]byte(`{"mcpServers":{"a":{"url":"https://a.example/x"},"b":{"httpUrl":"https://b.example/mcp"},"c":{"type":"http","url":"https://c.example/mcp"}}}`))
	if err != nil || len(changes) != 2 || len(skipped) != 1 || !strings.Contains(skipped[0], "a: its url") {
		t.Errorf("%v, %q, %v", changes, skipped, err)
	}
}
