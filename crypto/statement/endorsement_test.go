package statement_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/crypto/statement"
	"attestd/internal/must"
)

var nextKey = strings.Repeat("n", 42) + "o"

func wantEndorsed() statement.EndorsementClaims {
	return statement.EndorsementClaims{Issuer: agent, Audience: company, Next: nextKey}
}

// soundEndorsement is a draft that wantEndorsed accepts now.
func soundEndorsement(t testing.TB, algorithm string) draft {
	p := josetest.PrivateKey(t, algorithm)
	return draft{p, object{"alg": algorithm, "typ": "agent-key+jwt", "kid": p.Key().Thumbprint},
		object{"iss": agent, "aud": company, "iat": now.Unix(), "jkt": nextKey}}
}

// endorsed returns the refusal's message, or "".
func endorsed(t testing.TB, compact string, key *jose.Key) string {
	t.Helper()
	e, err := statement.ParseEndorsement(compact)
	if err == nil {
		err = e.Check(key, wantEndorsed(), now)
	}
	if code := codeOf(t, err); code == "accepted" {
		return ""
	} else if code != statement.CodeEndorsementInvalid {
		t.Errorf("code %s", code)
	}
	return err.Error()
}

func TestMakeEndorsement(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{jose.EdDSA, jose.ES256} {
		p, c := josetest.PrivateKey(t, algorithm), wantEndorsed()
		c.IssuedAt = now.Unix()
		made, err := statement.MakeEndorsement(t.Context(), p, c)
		must.OK(t, err)
		read, err := statement.ParseEndorsement(made.Compact)
		must.OK(t, err)
		if !reflect.DeepEqual(read, made) || made.EndorsementClaims != c || made.KeyID != p.Key().Thumbprint {
			t.Errorf("%+v, want %+v", made, c)
		}
		if refused := endorsed(t, made.Compact, p.Key()); refused != "" {
			t.Errorf("%s: %s", algorithm, refused)
		}
		if _, err := statement.Parse(made.Compact); codeOf(t, err) != statement.CodeMalformed {
			t.Errorf("an endorsement is read as a statement: %v", err)
		}
		if _, err := statement.ParseEndorsement(sound(t, algorithm).sign(t)); codeOf(t, err) != statement.CodeEndorsementInvalid {
			t.Errorf("a statement is read as an endorsement: %v", err)
		}
	}
}

func TestMakeEndorsementRefuses(t *testing.T) {
	t.Parallel()
	p := josetest.PrivateKey(t, jose.EdDSA)
	for name, spoil := range map[string]func(*statement.EndorsementClaims){
		"no issuer":      func(c *statement.EndorsementClaims) { c.Issuer = "" },
		"no audience":    func(c *statement.EndorsementClaims) { c.Audience = "acme" },
		"bad UTF-8":      func(c *statement.EndorsementClaims) { c.Issuer += "\xff" },
		"a time below 0": func(c *statement.EndorsementClaims) { c.IssuedAt = -1 },
		"no next key":    func(c *statement.EndorsementClaims) { c.Next = "" },
		"its own key":    func(c *statement.EndorsementClaims) { c.Next = p.Key().Thumbprint },
	} {
		c := wantEndorsed()
		spoil(&c)
		if _, err := statement.MakeEndorsement(t.Context(), p, c); codeOf(t, err) != statement.CodeEndorsementInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// endorsementFaults spoil a sound endorsement, each in one way.
var endorsementFaults = map[string]func(draft){
	"alg none":                         header("alg", "none"),
	"alg by its newer name":            header("alg", "Ed25519"),
	"no alg":                           func(d draft) { delete(d.header, "alg") },
	"typ of a statement":               header("typ", statement.Type),
	"typ JWT":                          header("typ", "JWT"),
	"no typ":                           func(d draft) { delete(d.header, "typ") },
	"kid no thumbprint":                header("kid", "spoilt"),
	"no kid":                           func(d draft) { delete(d.header, "kid") },
	"another kid":                      header("kid", strings.Repeat("A", 43)),
	"crit":                             header("crit", []string{"exp"}),
	"a key in the header":              func(d draft) { d.header["jwk"] = d.key.Key() },
	"another header member":            header("cty", "spoilt"),
	"no iss":                           without("iss"),
	"iss no SPIFFE ID":                 claim("iss", "https://spoilt.example/"),
	"iss with a space":                 claim("iss", agent+" "),
	"another agent":                    claim("iss", company+"/agent/spoilt"),
	"no aud":                           without("aud"),
	"aud a list":                       claim("aud", []string{company}),
	"aud no SPIFFE ID":                 claim("aud", "spoilt"),
	"another company":                  claim("aud", "spiffe://attestd.local/company/spoilt"),
	"no iat":                           without("iat"),
	"iat a string":                     claim("iat", "1772366400"),
	"iat with a fraction":              claim("iat", josetest.Raw("1772366400.0")),
	"iat after the year 9999":          claim("iat", 253402300800),
	"61 seconds ahead":                 claim("iat", now.Unix()+61),
	"a second more than 5 minutes ago": claim("iat", now.Unix()-301),
	"no jkt":                           without("jkt"),
	"jkt a list":                       claim("jkt", []string{nextKey}),
	"jkt no thumbprint":                claim("jkt", "spoilt"),
	"jkt in another spelling":          claim("jkt", strings.Repeat("n", 43)),
	"another next key":                 claim("jkt", strings.Repeat("A", 43)),
	"its own key":                      func(d draft) { d.claims["jkt"] = d.key.Key().Thumbprint },
	"another claim":                    claim("exp", now.Unix()+60),
	"too long":                         claim("iss", "spiffe://"+strings.Repeat("a", statement.MaxEndorsement)),
	"alg of another kind of key": func(d draft) {
		d.header["alg"] = map[string]string{jose.EdDSA: jose.ES256, jose.ES256: jose.EdDSA}[d.key.Key().Algorithm]
	},
}

func TestEndorsementFaults(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{jose.EdDSA, jose.ES256} {
		for name, spoil := range endorsementFaults {
			d := soundEndorsement(t, algorithm)
			spoil(d)
			if endorsed(t, d.sign(t), d.key.Key()) == "" {
				t.Errorf("%s, %s: accepted", algorithm, name)
			}
		}
		d := soundEndorsement(t, algorithm)
		if endorsed(t, resign(d.sign(t)), d.key.Key()) == "" {
			t.Error("another signature is accepted")
		}
		for _, edge := range []int64{60, -300} {
			d.claims["iat"] = now.Unix() + edge
			if refused := endorsed(t, d.sign(t), d.key.Key()); refused != "" {
				t.Errorf("%d s: %s", edge, refused)
			}
		}
		// what another key signs, in the name of the first
		other := josetest.PrivateKey(t, map[string]string{jose.EdDSA: jose.ES256, jose.ES256: jose.EdDSA}[algorithm])
		if endorsed(t, josetest.Forge(t, other, josetest.Marshal(t, d.header), josetest.Marshal(t, d.claims)), d.key.Key()) == "" {
			t.Error("another key's signature is accepted")
		}
	}
}

// Each byte of an endorsement counts.
func TestEveryBitOfAnEndorsementIsCovered(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{jose.EdDSA, jose.ES256} {
		d := soundEndorsement(t, algorithm)
		compact := d.sign(t)
		for i := range len(compact) {
			for _, bit := range []byte{1, 2, 16, 32} {
				spoilt := []byte(compact)
				spoilt[i] ^= bit
				if endorsed(t, string(spoilt), d.key.Key()) == "" {
					t.Fatalf("%s: byte %d does not count", algorithm, i)
				}
			}
		}
	}
}

// FuzzEndorsement signs what it is given. What passes says the same to encoding/json, and
// MakeEndorsement makes an endorsement of the same claims.
func FuzzEndorsement(f *testing.F) {
	for _, spoil := range endorsementFaults {
		d := soundEndorsement(f, jose.EdDSA)
		spoil(d)
		f.Add(josetest.Marshal(f, d.header), josetest.Marshal(f, d.claims))
	}
	p := josetest.PrivateKey(f, jose.EdDSA)
	f.Fuzz(func(t *testing.T, header, claims []byte) {
		e, err := statement.ParseEndorsement(josetest.Forge(t, p, header, claims))
		if codeOf(t, err) != "accepted" {
			return
		}
		made, err := statement.MakeEndorsement(t.Context(), p, e.EndorsementClaims)
		must.OK(t, err)
		var read, text map[string]any
		must.OK(t, json.Unmarshal(claims, &read))
		must.OK(t, json.Unmarshal(unbase64(t, strings.Split(made.Compact, ".")[1]), &text))
		if !maps.Equal(read, text) || made.EndorsementClaims != e.EndorsementClaims {
			t.Fatalf("%s becomes %v", claims, text)
		}
	})
}

// An endorsement counts that was made while its key lived.
func TestEndorsementIsOfALivingKey(t *testing.T) {
	t.Parallel()
	second := time.Second
	for name, c := range map[string]struct {
		enrolled, expires time.Duration // from the endorsement on; 0 for a key that never expires
		ok                bool
	}{
		"a key of long ago":              {-time.Hour, 0, true},
		"a key that was just enrolled":   {0, 0, true},
		"enrolled 60 s later":            {time.Minute, 0, true},
		"enrolled 60.001 s later":        {time.Minute + time.Millisecond, 0, false},
		"expires a second later":         {-time.Hour, second, true},
		"expires then":                   {-time.Hour, -1, false}, // see below
		"expired an hour before":         {-2 * time.Hour, -time.Hour, false},
		"enrolled later, expired before": {time.Hour, -time.Hour, false},
	} {
		e := statement.Endorsement{EndorsementClaims: statement.EndorsementClaims{IssuedAt: now.Unix()}}
		var expires time.Time
		if c.expires != 0 {
			expires = now.Add(c.expires)
		}
		if c.expires == -1 {
			expires = now
		}
		if err := e.CheckLife(now.Add(c.enrolled), expires); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
