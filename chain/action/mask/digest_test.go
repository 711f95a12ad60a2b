package mask_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"attestd/chain/action"
	"attestd/chain/action/mask"
)

// With a key a mask has the beginning of the secret's HMAC, by which the key's owner can show later
// which value it was. The same event has the same record, and another key gives another digest.
func TestMaskHasKeyedDigest(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{7}, 32)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("hunter2"))
	masked := fmt.Sprintf("[masked 7 h:%s]", hex.EncodeToString(mac.Sum(nil))[:32])
	event := action.Event{
		Type: action.ToolFailed, Source: "s", Tool: "t", Input: json.RawMessage(`{"password":"hunter2","argv":["x","--password","hunter2"],"command":"PGPASSWORD=hunter2 psql"}`),
		Output: json.RawMessage(`"{\"token\": \"hunter2\"}"`), Error: "mysql://a:hunter2@host", Reason: "Password: hunter2",
	}
	policy := action.Policy{Mask: key}
	got := policy.Record("a", event)
	if n := strings.Count(string(got.Payload), masked); n != 6 || strings.Contains(string(got.Payload), "hunter2") {
		t.Errorf("%d masks %s in %s", n, masked, got.Payload)
	}
	if again := policy.Record("a", event); string(again.Payload) != string(got.Payload) || again.Key != got.Key {
		t.Errorf("%s, then %s", got.Payload, again.Payload)
	}
	if other := (action.Policy{Mask: bytes.Repeat([]byte{8}, 32)}).Record("a", event); strings.Contains(string(other.Payload), masked) || other.Key != got.Key {
		t.Errorf("%s, %s", other.Payload, other.Key)
	}
	if got := mask.Key(nil).Text("PGPASSWORD=hunter2 psql"); got != "PGPASSWORD=[masked 7] psql" {
		t.Error(got)
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
				mask.Key(nil).Text(text)
			}
		})
	}
}
