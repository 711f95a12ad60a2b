package test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"attestd/crypto/cred"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// link is what a statement says of its place in a session, and of other statements.
type link struct {
	Session   string `json:"sid"`
	Seq       int64
	Refused   []struct{ Code string }
	Continues *struct{ SID, KID, Hash string }

	Code string // of a refusal
	ID   string // of the session after it
	Last *struct{ SID, KID, Hash string }
}

// Where the service has statements of a session that the folder does not know, or of another key
// of the agent, a session of the TypeScript and Python clients goes on under another ID. An
// idempotency key that is recorded already is refused, and moves nothing.
func TestOtherClientsMoveWhereASessionIsTaken(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain)
	othersRun(t)
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	further := regexp.MustCompile(`^one~[0-9]+$`).MatchString
	for i, script := range []string{"moved.mjs", "moved.py"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			m := signingMachine(t, s, s.register(t, fmt.Sprint("moved-", i)))
			first, lost := filepath.Join(m.folder, "spool"), filepath.Join(m.folder, "lost")
			attest := func(folder string, n int, key ...string) (l link) {
				t.Helper()
				printed(t, clientScript(t, script, append([]string{m.keyFile, m.URL, folder, "one", fmt.Sprint(n)}, key...)...), &l)
				return l
			}
			if l := attest(first, 1, "k1"); l.Session != "one" || l.Seq != 0 || l.Continues != nil {
				t.Errorf("the first: %+v", l)
			}
			if l := attest(first, 2); l.Session != "one" || l.Seq != 1 {
				t.Errorf("the second: %+v", l)
			}
			moved := attest(lost, 3)
			if !further(moved.Session) || moved.Seq != 0 || moved.Refused != nil || moved.Continues != nil {
				t.Errorf("of a folder that was lost: %+v", moved)
			}
			if l := attest(lost, 4, "k4"); l.Session != moved.Session || l.Seq != 1 {
				t.Errorf("and the next one: %+v, after %+v", l, moved)
			}
			if l := attest("", 5); !further(l.Session) || l.Seq != 0 {
				t.Errorf("in memory: %+v", l)
			}
			// under a key of the caller's only that is the cause which is the same elsewhere
			for range 2 {
				if l := attest(lost, 1, "k1"); l.Code != "STATEMENT_REUSED" || l.ID != moved.Session {
					t.Errorf("what is recorded under its key: %+v", l)
				}
			}
			if l := attest(lost, 6); l.Session != moved.Session || l.Seq != 4 || len(l.Refused) != 2 || l.Refused[1].Code != "STATEMENT_REUSED" {
				t.Errorf("after that: %+v", l)
			}
			before := attest(first, 7)
			if out, err := m.attestd(t, "", "agent-key", "enrol", "--next", "--agent", "bot").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			next := attest(first, 8)
			if !further(next.Session) || next.Seq != 0 || next.Continues == nil || *next.Continues != *before.Last {
				t.Errorf("under the next key: %+v, want it to go on from %+v", next, before.Last)
			}
			if l := attest("", 9); !further(l.Session) || l.Seq != 0 || l.Continues != nil {
				t.Errorf("in memory, under the next key: %+v", l)
			}
		})
	}
}

// What the TypeScript and Python clients sign of a delegation is what the record will say of it, as
// the service reads the token: with the first actor outermost, or innermost in an access token.
func TestOtherClientsReadDelegations(t *testing.T) {
	othersRun(t)
	var tokens, want []string
	add := func(header, claims string) {
		encode := base64.RawURLEncoding.EncodeToString
		token := encode([]byte(header)) + "." + encode([]byte(claims)) + "." + encode(make([]byte, 64))
		hash := ""
		if d, err := cred.ReadDelegation(token); err == nil {
			hash = d.Hash()
		}
		tokens, want = append(tokens, token), append(want, hash)
	}
	nested := func(actors int) string {
		act := ""
		for n := range actors {
			inner := ""
			if act != "" {
				inner = `,"act":` + act
			}
			act = fmt.Sprintf(`{"sub":"spiffe://attestd.local/company/acme/agent/größe%d"%s}`, n, inner)
		}
		return act
	}
	for _, typ := range []string{"JWT", "at+jwt", "CAP+JWT", "jwt"} {
		header := fmt.Sprintf(`{"alg":"EdDSA","typ":%q,"kid":"0123456789abcdef"}`, typ)
		for actors := range 13 {
			act := ""
			if actors > 0 {
				act = `,"act":` + nested(actors)
			}
			add(header, `{"iss":"x","sub":"https://idp.example#\u00e9","jti":"j-1"`+act+`}`)
		}
		for _, claims := range []string{
			`{"sub":"s"}`, `{"jti":"j"}`, `{"sub":1,"jti":"j"}`, `{"sub":"s","jti":null}`, `{"sub":"s","jti":"j","act":null}`, `{"sub":"s","jti":"j","act":"a"}`,
			`{"sub":"s","jti":"j","act":{}}`, `{"sub":"s","jti":"j","act":{"sub":1}}`, `{"sub":"s","jti":"j","act":{"sub":"a","iss":"x"}}`,
			`{"sub":"s","jti":"j","act":{"act":{"sub":"b"},"sub":"a"}}`, `{"sub":"s","jti":"j","act":{"sub":"a","act":null}}`, `[]`, `null`,
		} {
			add(header, claims)
		}
	}
	if read := slices.DeleteFunc(slices.Clone(want), func(hash string) bool { return hash == "" }); len(read) != 24 {
		t.Errorf("%d of the tokens are read, want 24", len(read))
	}
	given, err := json.Marshal(tokens)
	must.OK(t, err)
	for _, name := range []string{"delegation.mjs", "delegation.py"} {
		var got []string
		printed(t, clientScript(t, name, string(given)), &got)
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: %s: %q, want %q", name, tokens[i], got[i], want[i])
			}
		}
	}
}
