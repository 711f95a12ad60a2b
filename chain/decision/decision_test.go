package decision_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"attestd/chain/decision"
	"attestd/crypto/jcs"
	"attestd/internal/must"
)

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

// What this version does not know, or is no decision, is refused.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const fine = `{"by":[],"context":{"door":"attest","time":"t"},"policies":"p","revision":0,"verdict":"allow"}`
	if _, err := decision.Parse([]byte(fine)); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{
		``, `null`, `[]`, `{}`,
		strings.Replace(fine, "allow", "perhaps", 1),
		strings.Replace(fine, `"by":[]`, `"by":null`, 1),
		strings.Replace(fine, `"by":[],`, ``, 1),
		strings.Replace(fine, `"by":[]`, `"By":[]`, 1),
		strings.Replace(fine, `"by":[]`, `"by":[],"by":[]`, 1),
		strings.Replace(fine, `"door":`, `"later":1,"door":`, 1),
		strings.Replace(fine, `"revision":0`, `"revision":0.5`, 1),
		strings.Replace(fine, `"verdict"`, `"code":"","verdict"`, 1),
		fine + `{}`,
	} {
		if d, err := decision.Parse([]byte(wrong)); err == nil {
			t.Errorf("%s is %+v", wrong, d)
		}
	}
}

// FuzzCut finds a text that is put together otherwise than it was taken apart.
func FuzzCut(f *testing.F) {
	f.Add([]byte(payload))
	f.Add([]byte(`{"actionType":"a","agentId":"b","companyId":"c","decision":{"a":"}"},"payload":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = decision.Parse(text)
		_, _ = decision.Of(text)
		rest, is := decision.Cut(text)
		if is == nil || !json.Valid(text) {
			return
		}
		if with, err := decision.Insert(rest, is); err != nil || !bytes.Equal(with, text) {
			t.Errorf("%s is %s and %s, and together %s, %v", text, rest, is, with, err)
		}
	})
}
