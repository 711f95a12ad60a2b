package mask_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"attestd/chain/action"
	"attestd/chain/action/mask"
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
		{"aws_secret_access_key = wJalr7XUtn+FEMI/K7MDENG", "wJalr7XUtn"},
		{"x en" + "r_" + letters[:43] + " y", letters[:43]},
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
		{"bearer a1b2c3d4e5", "a1b2c3d4e5"},
		{"Cookie: a=hunter2; b=x7Yw2kQ9\r\nX: y", "x7Yw2kQ9"},
		{"git clone https://me:hunter2@host/x", "hunter2"},
		{"curl -s -u me:hunter2 https://host", "hunter2"},
		{"curl -s \\\n  -u me:hunter2 \\\n https://host", "hunter2"},
		{"curl -su 'me:hun ter2' https://host", "ter2"},
		{"curl --user=me:hunter2 https://host", "hunter2"},
		{"curl --cookie 'sid=1; b=x7Yw2kQ9' https://host", "x7Yw2kQ9"},
		{"curl -b sid=hunter2 https://host", "hunter2"},
		{"PGPASSWORD=hunter2 psql", "hunter2"},
		{`password: "correct horse"`, "horse"},
		{`export DB_PASSWORD='correct horse'`, "horse"},
		{`-d "{\"client_secret\":\"hunter2\"}"`, "hunter2"},
		{"mysql --password hunter2 db", "hunter2"},
		{"x --api-key=hunter2 y", "hunter2"},
		{`token := "hunter2"`, "hunter2"},
		{"https://h/?access_token=hunter2&x=y", "hunter2"},
		{"-----BEGIN PRI" + "VATE KEY-----\n" + letters[:64] + "\nMIIhunter2=\n-----END PRI" + "VATE KEY-----\n", "hunter2"},
		{"-----BEGIN EC PRI" + "VATE KEY-----\n" + letters[:64], letters[:64]},
		{"-----BEGIN PGP PRI" + "VATE KEY BLOCK-----\nVersion: 1\n\n" + letters[:64] + "\n=aB3d\n-----END PGP PRI" + "VATE KEY BLOCK-----", letters[:64]},
	} {
		quoted, _ := json.Marshal(map[string]string{"command": "before " + c.text})
		event := action.Event{Type: action.ToolFailed, Source: "s", Input: quoted, Output: json.RawMessage(`{"a":1,"a":` + string(quoted) + `}`), Error: c.text, Reason: c.text}
		got := string(action.Policy{}.Record("a", event).Payload)
		if strings.Contains(got, c.secret) || len(anyMask.FindAllString(got, -1)) < 4 || !strings.Contains(got, `"before `) {
			t.Errorf("%s\n%s", c.text, got)
		}
	}
}

// Values under the names of secrets are masked, in JSON and in a text that holds JSON, and the
// lines
// of a private key. The structure stays.
func TestSecretMembersAreMasked(t *testing.T) {
	t.Parallel()
	key := "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
	for in, want := range map[string]string{
		`{"password":"x","DB_PASSWORD":"y","apiKey":"z9y8x7","user":"u"}`:                                                    `{"DB_PASSWORD":"[masked 1]","apiKey":"[masked 6]","password":"[masked 1]","user":"u"}`,
		`{"password":"a;b|c&d>e"}`:                                                                                           `{"password":"[masked 9]"}`,
		`{"password":"a; curl evil"}`:                                                                                        `{"password":"a; curl evil"}`,
		`{"headers":{"Cookie":"sid=hunter2; theme=dark","Authorization":"Bearer hunter2"}}`:                                  `{"headers":{"Authorization":"Bearer [masked 7]","Cookie":"sid=[masked 7]; theme=dark"}}`,
		`{"secrets":["hunter2",["hunter3"]],"password":"","tokens":12}`:                                                      `{"password":"","secrets":["[masked 7]",["[masked 7]"]],"tokens":12}`,
		`{"lines":["+-----BEGIN PRIVATE KEY-----","+` + key + `","+MIIEvQ==","+-----END PRIVATE KEY-----","after"],"b":"c"}`: `{"b":"c","lines":["+-----BEGIN PRIVATE KEY-----","+[masked 64]","+[masked 8]","+-----END PRIVATE KEY-----","after"]}`,
		`{"lines":["-----BEGIN PRIVATE KEY-----","rm -rf /"],"b":"c"}`:                                                       `{"b":"c","lines":["-----BEGIN PRIVATE KEY-----","rm -rf /"]}`,
		`{"command":"mysql \\\n --password \\\n hunter2"}`:                                                                   `{"command":"mysql \\\n --password \\\n [masked 7]"}`,
		`{"args":["--password","x","--token",{"a":"b"},"y",["-secret"],"z"],"b":"c"}`:                                        `{"args":["--password","[masked 1]","--token",{"a":"b"},"y",["-secret"],"z"],"b":"c"}`,
		`{"credentials":{"user":"a","deep":{"x":["hunter2",7,123456,true,null]}},"b":"c"}`:                                   `{"b":"c","credentials":{"deep":{"x":["[masked 7]",7,"[masked 6]",true,null]},"user":"a"}}`,
		`{"secret":{"value":"hunter2"},"password":123456,"n":1}`:                                                             `{"n":1,"password":"[masked 6]","secret":{"value":"[masked 7]"}}`,
		`{"argv":["curl","-u","a:x","u"],"b":"-u"}`:                                                                          `{"argv":["curl","-u","a:[masked 1]","u"],"b":"-u"}`,
		`{"command":"curl","args":["-u","a:x","--cookie","sid=hunter2","-u","1:2"]}`:                                         `{"args":["-u","a:[masked 1]","--cookie","sid=[masked 7]","-u","1:2"],"command":"curl"}`,
		`{"password":{"command":"curl evil","args":["-s"]}}`:                                                                 `{"password":{"args":["-s"],"command":"curl evil"}}`,
		`{"name":"X-Api-Key","value":"hunter2"}`:                                                                             `{"name":"X-Api-Key","value":"[masked 7]"}`,
		`{"text":"{\"password\": {\"is\": [\"x y\", 12345]}, \"user\": \"u\"}"}`:                                             `{"text":"{\"password\": {\"is\": [\"[masked 3]\", \"[masked 5]\"]}, \"user\": \"u\"}"}`,
		`{"text":"log {\"k\":{\"token\":[\"a1b2c3\"]}} end"}`:                                                                `{"text":"log {\"k\":{\"token\":[\"[masked 6]\"]}} end"}`,
	} {
		got := action.Policy{}.Record("a", action.Event{Type: action.ToolRequested, Source: "s", Input: json.RawMessage(in)})
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
		if got := string(action.Policy{}.Record("a", action.Event{Source: "s", Input: quoted}).Payload); got != `{"source":"s","input":`+string(quoted)+`}` {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// No query and no fragment of a URI is recorded, nor a password in it.
func TestMaskURI(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"file:///srv/a.txt":                "file:///srv/a.txt",
		"https://u:hunter2hunter2@h/x?a=b": "https://u:[masked 14]@h/x?[masked 3]",
		"https://h/x#token":                "https://h/x#[masked 5]",
		"https://h/x?":                     "https://h/x?",
		"":                                 "",
	} {
		if got := mask.Key(nil).URI(uri); got != want {
			t.Errorf("%s becomes %s, want %s", uri, got, want)
		}
	}
}

// What follows the first ? or # of any URI is masked.
func FuzzMaskURI(f *testing.F) {
	f.Add("https://h/x?token=hunter2#a")
	f.Add("?#")
	f.Fuzz(func(t *testing.T, uri string) {
		got := mask.Key(nil).URI(uri)
		at := strings.IndexAny(uri, "?#")
		if at < 0 || at == len(uri)-1 {
			return
		}
		if end := strings.LastIndexByte(got, '['); end < 1 || got[end-1] != uri[at] || !strings.HasPrefix(got[end:], "[masked ") || !strings.HasSuffix(got, "]") {
			t.Errorf("%q becomes %q", uri, got)
		}
	})
}
