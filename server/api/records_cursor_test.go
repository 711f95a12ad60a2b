package api

import (
	"encoding/base64"
	"testing"

	"attestd/chain/search"
)

// FuzzCursor: what is read as a cursor is written as it was read, and lies within its log.
func FuzzCursor(f *testing.F) {
	c := cursor{digestOf("log", true, &search.Filter{Agent: "a"}, "", ""), 300, 17}
	f.Add(c.String())
	f.Add(c.String() + "=")
	f.Add(cursor{size: 1 << 40, at: 1 << 40}.String())
	f.Add(base64.RawURLEncoding.EncodeToString(make([]byte, cursorSize)))
	f.Add("AQ\nAQ")
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := parseCursor(text)
		if ok && (c.String() != text || c.at < 0 || c.at > c.size) {
			t.Errorf("%q is read as %+v", text, c)
		}
	})
}

// Each part of a question counts for its digest.
func TestDigestsDiffer(t *testing.T) {
	seen := map[digest]string{}
	for name, d := range map[string]digest{
		"all":      digestOf("log", true, &search.Filter{}, "", ""),
		"a log":    digestOf("gol", true, &search.Filter{}, "", ""),
		"an order": digestOf("log", false, &search.Filter{}, "", ""),
		"agent":    digestOf("log", true, &search.Filter{Agent: "x"}, "", ""),
		"action":   digestOf("log", true, &search.Filter{Action: "x"}, "", ""),
		"by":       digestOf("log", true, &search.Filter{DelegatedBy: "x"}, "", ""),
		"text":     digestOf("log", true, &search.Filter{Text: "x"}, "", ""),
		"hash":     digestOf("log", true, &search.Filter{Hash: "x"}, "", ""),
		"decision": digestOf("log", true, &search.Filter{Decision: "x"}, "", ""),
		"policy":   digestOf("log", true, &search.Filter{Policy: "x"}, "", ""),
		"since":    digestOf("log", true, &search.Filter{}, "x", ""),
		"until":    digestOf("log", true, &search.Filter{}, "", "x"),
	} {
		if seen[d] != "" {
			t.Errorf("%s has the digest of %s", name, seen[d])
		}
		seen[d] = name
	}
}
