package approval_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"testing"

	"attestd/chain/approval"
	"attestd/crypto/jcs"
	"attestd/crypto/passkey"
	"attestd/crypto/passkey/passkeytest"
	"attestd/internal/must"
)

const origin = "https://attestd.example:8443"

func object() approval.Object {
	reason := "the \"quarterly\" run é\u2028"
	return approval.Object{
		ApprovalID: approval.FormatID([16]byte{1, 2, 250}), Log: "log.example/v1/log/" + strings.Repeat("ab", 16), Index: 7, Hash: strings.Repeat("0f", 32),
		AgentID: "payer", Tool: "bank/transfer", Person: "alice", Verdict: approval.Approve, Uses: 1, ExpiresAt: "2026-11-21T09:10:00.000Z", Reason: &reason,
	}
}

// The form is that of RFC 8785, and what a person signs is its hash below a heading.
func TestChallengeCoversCanonicalForm(t *testing.T) {
	t.Parallel()
	for _, reason := range []*string{object().Reason, nil} {
		o := object()
		o.Reason = reason
		text, err := json.MarshalIndent(o, " ", "\t")
		must.OK(t, err)
		want, err := jcs.Append(nil, text, 2)
		must.OK(t, err)
		if got := o.Append(nil); !bytes.Equal(got, want) {
			t.Fatalf("the form is %s, not %s", got, want)
		}
		sum := sha256.Sum256(append([]byte("attestd approval v1\n"), want...))
		if !bytes.Equal(o.Challenge(), sum[:]) {
			t.Fatal("the challenge is another one")
		}
		read, err := approval.Parse(text)
		must.OK(t, err)
		if !bytes.Equal(read.Append(nil), want) {
			t.Fatalf("read again it is %s", read.Append(nil))
		}
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	for _, algorithm := range passkeytest.Algorithms {
		for page, rpID := range map[string]string{
			origin: "attestd.example", "https://attestd.example": "attestd.example", "http://localhost:8080": "localhost",
		} {
			a, o := passkeytest.New(t, algorithm), object()
			made := a.Get(t, page, rpID, o.Challenge())
			for _, expected := range []string{"", page} {
				if got, err := approval.Verify(&o, made, a.Key(t), expected); err != nil || got != page {
					t.Errorf("%d %s: %q, %v", algorithm, page, got, err)
				}
			}
			if _, err := approval.Verify(&o, made, a.Key(t), "https://other.example"); err == nil {
				t.Errorf("%d: an assertion of %s is one of another page", algorithm, page)
			}
			o.Uses = 2
			if _, err := approval.Verify(&o, made, a.Key(t), ""); err == nil {
				t.Errorf("%d: a signature for one use is one for two", algorithm)
			}
		}
	}
}

// A page that no relying party can be, or that is of another one, makes no approval.
func TestRefusesPages(t *testing.T) {
	t.Parallel()
	a, o := passkeytest.New(t, passkey.ES256), object()
	for _, page := range []string{
		"http://attestd.example", "https://attestd.example/", "https://attestd.example.evil.example", "https://ATTESTD.example", "https://attestd.example:", "null", "",
		"https://attestd.example:123456", "https://[::1]", "ftp://localhost", "https://evil.example#attestd.example",
	} {
		if _, err := approval.Verify(&o, a.Get(t, page, "attestd.example", o.Challenge()), a.Key(t), ""); err == nil {
			t.Errorf("%q is a page", page)
		}
	}
}

func TestRefusesObjects(t *testing.T) {
	t.Parallel()
	good := object()
	valid := string(good.Append(nil))
	for name, pair := range map[string][2]string{
		"no member":             {`"uses":1,`, ``},
		"a member more":         {`"uses":1`, `"uses":1,"more":null`},
		"a member twice":        {`"uses":1`, `"uses":1,"uses":1`},
		"a short ID":            {`apr_AQL6`, `apr_AQL`},
		"stray bits in the ID":  {`AAAA","exp`, `AAAB","exp`},
		"an ID of another kind": {`apr_`, `apx_`},
		"no log":                {good.Log, ``},
		"a negative index":      {`"index":7`, `"index":-7`},
		"a fraction":            {`"index":7`, `"index":7.0`},
		"a large index":         {`"index":7`, `"index":9007199254740992`},
		"an upper-case hash":    {`0f0f`, `0F0f`},
		"a short hash":          {`0f0f`, `0f`},
		"no agent":              {`"payer"`, `""`},
		"no tool":               {`"bank/transfer"`, `""`},
		"a person of no form":   {`alice`, `al ice`},
		"no person":             {`"alice"`, `null`},
		"another verdict":       {`approve`, `allow`},
		"no use":                {`"uses":1`, `"uses":0`},
		"too many uses":         {`"uses":1`, `"uses":1001`},
		"uses as text":          {`"uses":1`, `"uses":"1"`},
		"an end of no form":     {`00.000Z`, `00Z`},
		"an impossible end":     {`11-21`, `13-21`},
		"a reason of no form":   {`"reason":"the`, `"reason":7,"the`},
	} {
		text := strings.Replace(valid, pair[0], pair[1], 1)
		if text == valid {
			t.Fatalf("%s: nothing was replaced in %s", name, valid)
		}
		if o, err := approval.Parse([]byte(text)); err == nil {
			t.Errorf("%s: %+v", name, o)
		}
	}
	a, o := passkeytest.New(t, passkey.EdDSA), object()
	o.Uses = 0
	if _, err := approval.Verify(&o, a.Get(t, origin, "attestd.example", o.Challenge()), a.Key(t), ""); err == nil {
		t.Error("what cannot be parsed can be approved")
	}
}

// FuzzParse holds that what is read has one form, and that the form is read again.
func FuzzParse(f *testing.F) {
	o := object()
	f.Add(o.Append(nil))
	o.Reason = nil
	f.Add(o.Append(nil))
	f.Add([]byte(`{"reason":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := approval.Parse(text)
		if err != nil {
			return
		}
		want, err := jcs.Append(nil, text, 2)
		if err != nil || !bytes.Equal(o.Append(nil), want) {
			t.Fatalf("%s is read as %s: %v", text, o.Append(nil), err)
		}
	})
}

// FuzzVerify holds that nothing but what the person signed is valid.
func FuzzVerify(f *testing.F) {
	a, o := passkeytest.New(f, passkey.EdDSA), object()
	made, key := a.Get(f, origin, "attestd.example", o.Challenge()), a.Key(f)
	f.Add(made.AuthenticatorData, made.ClientDataJSON, made.Signature)
	f.Fuzz(func(t *testing.T, data, client, signature []byte) {
		_, err := approval.Verify(&o, &passkey.Assertion{AuthenticatorData: data, ClientDataJSON: client, Signature: signature}, key, "")
		if err == nil && !(bytes.Equal(data, made.AuthenticatorData) && bytes.Equal(client, made.ClientDataJSON)) {
			t.Fatalf("valid: %x %s", data, client)
		}
	})
}
