package decision_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"attestd/chain/decision"
	"attestd/crypto/jcs"
	"attestd/internal/must"
)

// formCase is a text as the member decision of a record.
type formCase struct {
	Name, Decision string
	Good           bool
}

func formCases(t testing.TB) (cases []formCase) {
	t.Helper()
	text, err := os.ReadFile("cases.json")
	must.OK(t, err)
	must.OK(t, json.Unmarshal(text, &cases))
	return cases
}

const payload = `{"actionType":"a \"decision\":","agentId":"b\\","companyId":"c","payload":{"decision":{}},"statement":"s"}`

// A decision is put at its place in a payload object, and taken out again, whatever is around it.
func TestInsertAndCut(t *testing.T) {
	t.Parallel()
	d := decision.Decision{Verdict: decision.Deny, Code: decision.PolicyDenied, By: []string{"no}\"{"}, Policies: decision.HashSet(nil), Context: decision.Context{Door: "attest", Time: "2026-03-04T05:06:07.008Z"}}
	text, err := d.Append(nil)
	must.OK(t, err)
	with, err := decision.Insert([]byte(payload), text)
	must.OK(t, err)
	canonical, err := jcs.Append(nil, with, 128)
	must.OK(t, err)
	if !bytes.Equal(canonical, with) {
		t.Errorf("the canonical form is %s, and not %s", canonical, with)
	}
	if rest, is := decision.Cut(with); string(rest) != payload || !bytes.Equal(is, text) {
		t.Errorf("cut: %s and %s", rest, is)
	}
	if rest, is := decision.Cut([]byte(payload)); string(rest) != payload || is != nil {
		t.Errorf("cut of a payload without: %s and %s", rest, is)
	}
	read, err := decision.Of(with)
	must.OK(t, err)
	if again, err := read.Append(nil); err != nil || !bytes.Equal(again, text) {
		t.Errorf("read: %s, %v", again, err)
	}
}

// The table that all checkers share: which texts are decisions.
func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range formCases(t) {
		if d, err := decision.Parse([]byte(c.Decision)); (err == nil) != c.Good {
			t.Errorf("%s: %+v, %v", c.Name, d, err)
		}
	}
}

// What is read of a decision is all that it says: it is written again in the same form.
func FuzzParse(f *testing.F) {
	for _, c := range formCases(f) {
		f.Add([]byte(c.Decision))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := decision.Parse(text)
		if err != nil {
			return
		}
		given, err := jcs.Append(nil, text, 64)
		must.OK(t, err)
		made, err := d.Append(nil)
		must.OK(t, err)
		if !bytes.Equal(given, made) {
			t.Errorf("%s is written as %s", given, made)
		}
		whole := []byte(`{"actionType":"pay","agentId":"bot","companyId":"acme","payload":1}`)
		with, err := decision.Insert(whole, made)
		must.OK(t, err)
		if rest, text := decision.Cut(with); !bytes.Equal(rest, whole) || !bytes.Equal(text, made) {
			t.Errorf("%s is cut into %s and %s", with, rest, text)
		}
	})
}
