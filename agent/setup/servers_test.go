package setup

import (
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
