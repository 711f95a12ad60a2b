package statement_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"

	"attestd/crypto/jcs"
	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/crypto/statement"
	"attestd/crypto/strictjson"
	"attestd/internal/must"
)

func claims(t testing.TB) statement.Claims {
	return statement.Claims{
		Issuer: agent, Audience: company, Log: origin, IssuedAt: now.Unix(), ActionHash: actionHash(t), Delegation: delegation,
		Session: "run-1",
	}
}

// A session that Make makes: each statement passes, names the one before and those that were
// refused, and the last ends it.
func TestMakeSession(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{jose.EdDSA, jose.ES256} {
		p := josetest.PrivateKey(t, algorithm)
		c := claims(t)
		c.Continues = &statement.Continues{Session: "run-0", KeyID: p.Key().Thumbprint, Hash: earlier}
		ids := map[string]bool{}
		for c.Seq = range 5 {
			if c.End = c.Seq == 4; c.Seq > 0 {
				c.Continues = nil
			}
			s, err := statement.Make(t.Context(), p, c)
			must.OK(t, err)
			must.OK(t, s.Check(p.Key(), expected(t), now))
			read, err := statement.Parse(s.Compact)
			must.OK(t, err)
			if !reflect.DeepEqual(read, s) || s.KeyID != p.Key().Thumbprint || s.Algorithm != algorithm || ids[s.ID] {
				t.Errorf("%+v", s)
			}
			c.ID = s.ID
			if !reflect.DeepEqual(s.Claims, c) {
				t.Errorf("%+v, want %+v", s.Claims, c)
			}
			sum := sha256.Sum256([]byte(s.Compact))
			if s.Hash() != hex.EncodeToString(sum[:]) || statement.Hash(s.Compact) != s.Hash() || !strings.HasPrefix(s.Compact, s.Signed()+".") {
				t.Errorf("hash %s", s.Hash())
			}
			ids[s.ID], c.ID, c.Previous = true, "", s.Hash()
			c.Refused = append(slices.Clone(c.Refused), statement.Refused{Seq: c.Seq, Hash: s.Hash(), Code: "HTTP_400"})
		}
	}
}

// Make refuses what no statement may say, before it signs.
func TestMakeRefuses(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*statement.Claims){
		"no issuer":           func(c *statement.Claims) { c.Issuer = "" },
		"no audience":         func(c *statement.Claims) { c.Audience = "acme" },
		"a time below 0":      func(c *statement.Claims) { c.IssuedAt = -1 },
		"bad UTF-8 as ID":     func(c *statement.Claims) { c.ID = "\xff" },
		"no hash":             func(c *statement.Claims) { c.ActionHash = "" },
		"a jti as delegation": func(c *statement.Claims) { c.Delegation = "d-1" },
		"a hash of no log":    func(c *statement.Claims) { c.Log, c.Delegation = "", strings.Repeat("d", 129) },
		"a space in a log":    func(c *statement.Claims) { c.Log = "a b" },
		"refused at 0":        func(c *statement.Claims) { c.Refused = []statement.Refused{{Seq: 0, Hash: earlier, Code: "A"}} },
		"refused empty": func(c *statement.Claims) {
			c.Seq, c.Previous, c.Refused = 1, earlier, []statement.Refused{}
		},
		"refused with another hash": func(c *statement.Claims) {
			c.Seq, c.Previous, c.Refused = 1, earlier, []statement.Refused{{Seq: 0, Hash: previous, Code: "A"}}
		},
		"continues in version 1": func(c *statement.Claims) {
			c.Log, c.Delegation, c.Continues = "", "", &statement.Continues{Session: "run-0", KeyID: strings.Repeat("A", 43), Hash: earlier}
		},
		"continues itself": func(c *statement.Claims) {
			kid := josetest.PrivateKey(t, jose.EdDSA).Key().Thumbprint
			c.Continues = &statement.Continues{Session: "run-1", KeyID: kid, Hash: earlier}
		},
		"a space in a session": func(c *statement.Claims) { c.Session = "a b" },
		"a place alone":        func(c *statement.Claims) { c.Session, c.Seq = "", 1 },
		"an end alone":         func(c *statement.Claims) { c.Session, c.End = "", true },
		"prev alone":           func(c *statement.Claims) { c.Session, c.Previous = "", strings.Repeat("a", 64) },
		"a place below 0":      func(c *statement.Claims) { c.Seq = -1 },
		"a place too far":      func(c *statement.Claims) { c.Seq, c.Previous = statement.MaxSeq+1, strings.Repeat("a", 64) },
		"no prev at 1":         func(c *statement.Claims) { c.Seq = 1 },
		"prev at 0":            func(c *statement.Claims) { c.Previous = strings.Repeat("a", 64) },
	} {
		c := claims(t)
		spoil(&c)
		_, err := statement.Make(t.Context(), josetest.PrivateKey(t, jose.EdDSA), c)
		if codeOf(t, err) != statement.CodeMalformed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The hash is that of the canonical object as a whole, whatever the spelling of the payload.
func TestHashAction(t *testing.T) {
	t.Parallel()
	for _, action := range []struct{ actionType, agentID, companyID, payload string }{
		{"deploy", "build-bot", "acme", payload},
		{"deploy", "build-bot", "acme", ` { "n" : 15e-1 , "target":"\u0070rod" } `},
		{`a"b\c`, "é\u2028\U0001f600<&>", "acme", `null`},
		{"t", "a", "c", `[1,"x",{"b":[],"a":{}}]`},
		{"", "", "", `""`},
	} {
		got, err := statement.HashAction(action.actionType, action.agentID, action.companyID, []byte(action.payload))
		must.OK(t, err)
		whole := josetest.Marshal(t, object{
			"payload": josetest.Raw(action.payload), "companyId": action.companyID, "agentId": action.agentID, "actionType": action.actionType,
		})
		canonical, err := jcs.Append(nil, whole, 129)
		must.OK(t, err)
		sum := sha256.Sum256(canonical)
		if want := hex.EncodeToString(sum[:]); got != want || statement.HashCanonical(canonical) != want {
			t.Errorf("%+v: %s, want %s", action, got, want)
		}
	}
	// what sha256sum says of the canonical form
	if got, want := actionHash(t), "daf446084aad8aa2bbc1cf536fe5a6ab451393169cef75579db42163e2cd756c"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, payload := range []string{"", "{", `{"a":1,"a":2}`, "12345678901234567890", "1e400", `"\ud800"`, "1 2", strings.Repeat("[", 129) + strings.Repeat("]", 129)} {
		_, err := statement.HashAction("deploy", "build-bot", "acme", []byte(payload))
		if malformed := (*strictjson.Error)(nil); !errors.As(err, &malformed) {
			t.Errorf("%.20s: %v", payload, err)
		}
	}
	if _, err := statement.HashAction("deploy", "\xff", "acme", []byte("1")); err == nil {
		t.Error("bad UTF-8 has a hash")
	}
}

// From an ES256 signature anyone can make the other one of the same text. It means the same, and so
// is no contradiction of the agent's; but prev names one of the two.
func TestSameWordsWithAnotherSignature(t *testing.T) {
	t.Parallel()
	p := josetest.PrivateKey(t, jose.ES256)
	s, err := statement.Make(t.Context(), p, claims(t))
	must.OK(t, err)
	i := strings.LastIndexByte(s.Compact, '.') + 1
	signature := unbase64(t, s.Compact[i:])
	order, _ := new(big.Int).SetString("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551", 16)
	new(big.Int).Sub(order, new(big.Int).SetBytes(signature[32:])).FillBytes(signature[32:])
	twin, err := statement.Parse(s.Compact[:i] + josetest.Encode(signature))
	must.OK(t, err)
	must.OK(t, twin.Check(p.Key(), expected(t), now))
	if twin.Compact == s.Compact || twin.Signed() != s.Signed() || !reflect.DeepEqual(twin.Claims, s.Claims) || twin.Hash() == s.Hash() {
		t.Error("the twin is another statement")
	}
}
