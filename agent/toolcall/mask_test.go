package toolcall_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"attestd/agent/toolcall"
	"attestd/crypto/keys"
)

// letters are the characters of the secrets below, which are joined at run time so that no secret
// scanner reports them.
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefghijklmnopqrstuvwxyz"

// Each documented form of a secret is masked in a command, and the text around it is unchanged.
func TestSecretsAreMasked(t *testing.T) {
	t.Parallel()
	token := keys.NewToken(time.Now())
	jwt := "ey" + "JhbGciOiJF." + "ey" + "JzdWIiOiJh." + letters
	for _, c := range []struct{ text, secret string }{
		{"x AK" + "IA" + "ABCDEFGHIJKLMNOP y", "ABCDEFGHIJKLMNOP"},
		{"aws_secret_access_key = wJalr/XUtn+FEMI", "wJalr/XUtn+FEMI"},
		{"gh" + "p_" + letters[:36] + " y", letters[:36]},
		{"github" + "_pat_" + letters[:40], letters[:40]},
		{"gl" + "pat-" + letters[:20], letters[:20]},
		{"s" + "k-ant-api03-" + letters, letters},
		{"s" + "k_live_" + letters[:24], letters[:24]},
		{"wh" + "sec_" + letters[:32], letters[:32]},
		{"xo" + "xb-123456789012-" + letters[:20], letters[:20]},
		{"AI" + "za" + letters[:35], letters[:35]},
		{"np" + "m_" + letters[:36], letters[:36]},
		{"pyp" + "i-" + letters, letters},
		{"h" + "f_" + letters[:34], letters[:34]},
		{"S" + "G." + letters[:22] + "." + letters[:43], letters[:22]},
		{"AGE-SECRET-" + "KEY-1" + strings.ToUpper(letters[:58]), strings.ToUpper(letters[:58])},
		{"x " + jwt + " y", letters},
		{"x " + keys.NewSecret("svc") + " y", "svc_"},
		{"x " + keys.NewSecret("cs") + " y", "cs_"},
		{"x " + keys.NewSecret("oauth") + " y", "oauth_"},
		{"x " + token + " y", "oauth_"},
		{"x " + token + " y", token[len(token)-5:]},
		{`curl -H "Authorization: Bearer abc.def" u`, "abc.def"},
		{`curl -H 'authorization: Basic dXNlcjpw' u`, "dXNlcjpw"},
		{`{"Authorization": "token hunter2"}`, "hunter2"},
		{"bearer abcdefgh", "abcdefgh"},
		{"Cookie: a=hunter2; b=hunter3\r\nX: y", "hunter3"},
		{"git clone https://me:hunter2@host/x", "hunter2"},
		{"curl -s -u me:hunter2 https://host", "hunter2"},
		{"curl -s \\\n  -u me:hunter2 \\\n https://host", "hunter2"},
		{"curl -su 'me:hun ter2' https://host", "ter2"},
		{"curl --user=me:hunter2 https://host", "hunter2"},
		{"curl --cookie 'sid=1; b=hunter2' https://host", "hunter2"},
		{"curl -b sid=hunter2 https://host", "hunter2"},
		{"PGPASSWORD=hunter2 psql", "hunter2"},
		{`password: "correct horse"`, "horse"},
		{`export DB_PASSWORD='correct horse'`, "horse"},
		{`-d "{\"client_secret\":\"hunter2\"}"`, "hunter2"},
		{"mysql --password hunter2 db", "hunter2"},
		{"x --api-key=hunter2 y", "hunter2"},
		{`token := "hunter2"`, "hunter2"},
		{"https://h/?access_token=hunter2&x=y", "hunter2"},
		{"-----BEGIN PRI" + "VATE KEY-----\nMIIhunter2\n-----END PRI" + "VATE KEY-----\n", "hunter2"},
		{"-----BEGIN EC PRI" + "VATE KEY-----\nMIIhunter2", "hunter2"},
		{"-----BEGIN PGP PRI" + "VATE KEY BLOCK-----\nhunter2\n-----END PGP PRI" + "VATE KEY BLOCK-----", "hunter2"},
	} {
		quoted, _ := json.Marshal(map[string]string{"command": "before " + c.text})
		event := toolcall.Event{Kind: toolcall.Failed, Source: "s", Input: quoted, Output: json.RawMessage(`{"a":1,"a":` + string(quoted) + `}`), Error: c.text, Reason: c.text}
		got := string(toolcall.Policy{}.Record("a", event).Payload)
		if strings.Contains(got, c.secret) || strings.Count(got, "[masked]") < 4 || !strings.Contains(got, `"before `) || strings.Contains(got, "[masked]]") {
			t.Errorf("%s\n%s", c.text, got)
		}
	}
}

// Strings under the names of secrets are masked, and the lines of a private key.
func TestSecretMembersAreMasked(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"password":"x","DB_PASSWORD":"y","apiKey":"z","user":"u"}`:                                                `{"DB_PASSWORD":"[masked]","apiKey":"[masked]","password":"[masked]","user":"u"}`,
		`{"headers":{"Cookie":"x","Authorization":"y"}}`:                                                            `{"headers":{"Authorization":"[masked]","Cookie":"[masked]"}}`,
		`{"secrets":["x",["y"]],"password":"","tokens":12}`:                                                         `{"password":"","secrets":["[masked]",["[masked]"]],"tokens":12}`,
		`{"lines":["+-----BEGIN PRIVATE KEY-----","+MIIx",{"a":"y"},"+-----END PRIVATE KEY-----","after"],"b":"c"}`: `{"b":"c","lines":["+[masked]","[masked]",{"a":"[masked]"},"[masked]","after"]}`,
		`{"command":"mysql \\\n --password \\\n hunter2"}`:                                                          `{"command":"mysql \\\n --password \\\n [masked]"}`,
		`{"args":["--password","x","--token",{"a":"b"},"y",["-secret"],"z"],"b":"c"}`:                               `{"args":["--password","[masked]","--token",{"a":"b"},"y",["-secret"],"z"],"b":"c"}`,
		`{"credentials":{"user":"a","deep":{"x":["y",7,true,null]}},"b":"c"}`:                                       `{"b":"c","credentials":{"deep":{"x":["[masked]","[masked]",true,null]},"user":"[masked]"}}`,
		`{"secret":{"value":"x"},"password":123456,"n":1}`:                                                          `{"n":1,"password":"[masked]","secret":{"value":"[masked]"}}`,
		`{"argv":["curl","-u","a:x","u"],"b":"-u"}`:                                                                 `{"argv":["curl","-u","[masked]","u"],"b":"-u"}`,
		`{"command":"curl","args":["-u","a:x","--cookie","s=x","-u","1:2"]}`:                                        `{"args":["-u","[masked]","--cookie","[masked]","-u","1:2"],"command":"curl"}`,
		`{"lines":["-----BEGIN PRIVATE KEY-----","x"],"b":"c"}`:                                                     `{"b":"c","lines":["[masked]","[masked]"]}`,
	} {
		got := toolcall.Policy{}.Record("a", toolcall.Event{Kind: toolcall.Requested, Source: "s", Input: json.RawMessage(in)})
		if want := `{"source":"s","input":` + want + `}`; string(got.Payload) != want {
			t.Errorf("%s\ngot  %s\nwant %s", in, got.Payload, want)
		}
	}
}

// Ordinary text that resembles a secret is not masked.
func TestOrdinaryTextIsNotMasked(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"max_tokens: 1200", "if token == nil {", "the token bucket", "my-secret sauce", "https://host:8080/a@b", "git@github.com:a/b.git", "basic auth", "sk-short",
		"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA", "-----BEGIN PUBLIC KEY-----\nMCow", "docker run -u 1000:1000 x", "keyboard: us", "password:\nuser: me", "tokenizer=bpe", "5a9e3f0c7d2b1a4e6f8091a2b3c4d5e6f708192a",
	} {
		quoted, _ := json.Marshal(text)
		if got := string(toolcall.Policy{}.Record("a", toolcall.Event{Source: "s", Input: quoted}).Payload); got != `{"source":"s","input":`+string(quoted)+`}` {
			t.Errorf("%s: %s", text, got)
		}
	}
}
