package test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/crypto/keyring"
	"attestd/internal/must"
)

const origin = "attestd.local/v1/log/7b0e1f4a9c3d42568e1b6a0d5c9f2e38"

// newRotated is a company under its fifth key: the first ended days ago, the second was declared
// compromised, the third has signed nothing, and the fourth has just ended.
func newRotated(t *testing.T) *signer {
	t.Helper()
	now := time.Now()
	s := newSigner(t, "acme")
	s.from = 8
	for i, from := range []int64{0, 3, 5, 5} {
		f := newSigner(t, "acme")
		f.from, f.ended, f.compromised = from, now.Add(-time.Duration(4-i)*time.Hour), i == 1
		s.former = append(s.former, f)
	}
	s.former[0].ended, s.former[3].ended = now.Add(-50*time.Hour), now.Add(-10*time.Second)
	return s
}

// publishedKeys is the answer of GET /v1/ca/public-keys.
func (s *signer) publishedKeys() map[string]any {
	const form = "2006-01-02T15:04:05.000Z"
	created := time.Now().Add(-100 * time.Hour)
	var keys []any
	all := append(slices.Clone(s.former), s)
	for i, k := range all {
		one := object(k.published(), map[string]any{"companyId": nil, "spiffeId": nil, "fromIndex": k.from, "createdAt": created.UTC().Format(form)})
		if i > 0 {
			statement := keyring.Rotate(origin, k.from, all[i-1].private, k.private).Statement
			if i < 3 { // before statements had whole fingerprints
				statement = statementOf("v1", origin, k.from, all[i-1].kid(), k.kid())
			}
			one["rotation"] = rotationOf(all[i-1], k, statement)
		}
		if k != s {
			one["endedAt"] = k.ended.UTC().Format(form)
		}
		if k.compromised {
			one["compromisedAt"] = one["endedAt"]
		}
		created = k.ended
		keys = append(keys, one)
	}
	return map[string]any{"companyId": s.companyID, "spiffeId": "spiffe://attestd.local/company/" + s.companyID, "origin": origin, "keys": keys}
}

// statementOf is what both keys of a rotation sign in some form.
func statementOf(version, origin string, from int64, old, next string) string {
	return fmt.Sprintf("attestd/key-rotation/%s\n%s\n%d\n%s\n%s\n", version, origin, from, old, next)
}

// rotationOf is a rotation whose statement is any text.
func rotationOf(old, next *signer, statement string) map[string]any {
	return map[string]any{"statement": statement, "oldSignature": old.sign([]byte(statement)), "newSignature": next.sign([]byte(statement))}
}

// statementForms are statements about a rotation from a record on, of all forms that there are and
// some that mix them.
func statementForms(origin string, from int64, old, next *signer) map[string]struct {
	text    string
	genuine bool
} {
	first, second := [2]string{old.kid(), next.kid()}, [2]string{old.fingerprint(), next.fingerprint()}
	forms := make(map[string]struct {
		text    string
		genuine bool
	})
	for _, c := range []struct {
		name, version string
		names         [2]string
		genuine       bool
	}{
		{"kids, as in the first form", "v1", first, true},
		{"whole fingerprints", "v2", second, true},
		{"whole fingerprints in the first form", "v1", second, false},
		{"kids in the second form", "v2", first, false},
		{"a kid and a fingerprint", "v2", [2]string{first[0], second[1]}, false},
		{"a fingerprint and a kid", "v2", [2]string{second[0], first[1]}, false},
		{"a version to come", "v3", second, false},
		{"fingerprints without their prefix", "v2", [2]string{second[0][len("SHA256:"):], second[1][len("SHA256:"):]}, false},
		{"the fingerprints exchanged", "v2", [2]string{second[1], second[0]}, false},
	} {
		forms[c.name] = struct {
			text    string
			genuine bool
		}{statementOf(c.version, origin, from, c.names[0], c.names[1]), c.genuine}
	}
	return forms
}

// ringCases are lists of keys that do not follow from one another, and what a key has signed that
// is not the one of its time.
func ringCases(t *testing.T, s *signer) (all []checkerCase) {
	add := func(genuine bool, kind, name, text string) {
		all = append(all, checkerCase{Name: name, Kind: kind, Text: text, JTI: passportID, Genuine: genuine})
	}
	genuine := text(t, s.publishedKeys())
	add(true, "key", "all keys", genuine)
	add(true, "key", "the key of a company that never changed it", text(t, newSigner(t, "acme").publishedKeys()))
	other := newRotated(t).publishedKeys()["keys"].([]any)
	change := func(name string, change func(answer map[string]any, keys []map[string]any) []map[string]any) {
		var answer struct {
			Whole map[string]any   `json:"whole"`
			Keys  []map[string]any `json:"keys"`
		}
		must.OK(t, json.Unmarshal([]byte(`{"whole":`+genuine+`,"keys":`+text(t, s.publishedKeys()["keys"])+`}`), &answer))
		answer.Whole["keys"] = change(answer.Whole, answer.Keys)
		add(false, "key", name, text(t, answer.Whole))
	}
	proof := func(key map[string]any) map[string]any { return key["rotation"].(map[string]any) }
	type list = []map[string]any
	change("another origin", func(a map[string]any, k list) list { a["origin"] = "x"; return k })
	change("a later index", func(_ map[string]any, k list) list { k[1]["fromIndex"] = 4; return k })
	change("an earlier index", func(_ map[string]any, k list) list { k[2]["fromIndex"] = 2; return k })
	change("a first key that begins late", func(_ map[string]any, k list) list { k[0]["fromIndex"] = 1; return k })
	change("no proof", func(_ map[string]any, k list) list { delete(k[3], "rotation"); return k })
	change("the proof of another rotation", func(_ map[string]any, k list) list { k[3]["rotation"] = k[2]["rotation"]; return k })
	change("no signature of the old key", func(_ map[string]any, k list) list {
		proof(k[1])["oldSignature"] = proof(k[1])["newSignature"]
		return k
	})
	change("no signature of the new key", func(_ map[string]any, k list) list {
		proof(k[4])["newSignature"] = proof(k[4])["oldSignature"]
		return k
	})
	change("a statement with a line more", func(_ map[string]any, k list) list {
		proof(k[2])["statement"] = proof(k[2])["statement"].(string) + "\n"
		return k
	})
	for name, form := range statementForms(origin, s.former[3].from, s.former[2], s.former[3]) {
		answer := s.publishedKeys()
		answer["keys"].([]any)[3].(map[string]any)["rotation"] = rotationOf(s.former[2], s.former[3], form.text)
		add(form.genuine, "key", "a statement with "+name, text(t, answer))
	}
	change("a key left out", func(_ map[string]any, k list) list { return slices.Delete(k, 1, 2) })
	change("the first left out", func(_ map[string]any, k list) list { return k[1:] })
	change("no keys", func(map[string]any, list) list { return list{} })
	change("two exchanged", func(_ map[string]any, k list) list { k[2], k[3] = k[3], k[2]; return k })
	change("the last key of another company", func(_ map[string]any, k list) list { return append(k[:4], other[4].(map[string]any)) })
	for _, member := range []string{"pem", "fingerprint", "kid"} {
		change("a key with the "+member+" of another", func(_ map[string]any, k list) list { k[1][member] = other[1].(map[string]any)[member]; return k })
	}

	payload := `{"agentId":"bot","companyId":"acme","actionType":"pay","payload":1}`
	for index := range 12 {
		n := fmt.Sprint(index)
		add(true, "record", "record "+n+" by the key of its time", s.record(t, n, recordTime, payload, ""))
		for i, k := range append(slices.Clone(s.former), s) {
			if k != s.at(n) {
				alone := *k
				alone.former, alone.from = nil, 0
				add(false, "record", fmt.Sprintf("record %d by key %d", index, i), alone.record(t, n, recordTime, payload, ""))
			}
		}
	}

	// Passports are good until they expire, where their key has not ended a day ago and is not
	// compromised. A status is of the key of its time.
	for i, k := range s.former {
		for _, c := range append(passportCases(t, k), statusCases(t, k)...) {
			if c.Genuine {
				add(i == 3 || i == 2 && c.Kind == "passport", c.Kind, fmt.Sprintf("%s, by key %d", c.Name, i), c.Text)
			}
		}
	}
	if !strings.Contains(genuine, "compromisedAt") {
		t.Error("no key is compromised")
	}
	return all
}
