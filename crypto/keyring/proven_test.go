package keyring_test

import (
	"slices"
	"strings"
	"testing"

	"attestd/crypto/keyring"
)

const secondOrigin = "example.com/v1/log/fedcba9876543210fedcba9876543210"

// secondRing is the ring of a log that was made when the keys of ring from the one numbered first
// on were yet to come or, itself, there.
func secondRing(first int) []keyring.Key {
	list := ring()[first:]
	for i, from := range []int64{0, 2, 2, 7}[:len(list)] {
		list[i].From = from
		if list[i].Rotation = nil; i > 0 {
			n := byte(first + i)
			list[i].Rotation = keyring.Rotate(secondOrigin, from, private(n-1), private(n))
		}
	}
	return list
}

// A log that was made when its company had had several keys begins with the one that it had then,
// which needs no statement of that log: that it is the company's is proven in the other one. What
// is not proven in both is not proven.
func TestFlawsWithProven(t *testing.T) {
	t.Parallel()
	flaws := func(list, all []keyring.Key) []string {
		return keyring.FlawsWithProven(secondOrigin, list, all, keyring.Flaws(origin, all))
	}
	for first := range 4 {
		if f := flaws(secondRing(first), ring()); strings.Join(f, "") != "" || len(f) != 4-first {
			t.Errorf("made under key %d: %q", first, f)
		}
	}
	for name, c := range map[string]struct {
		list, all func(r []keyring.Key) []keyring.Key
		at        int // first key that is not proven
		why       string
	}{
		"a key of nobody first": {list: func(r []keyring.Key) []keyring.Key { r[0].Public = public(9); return r }, at: 0, why: "not among the company's"},
		"a key of nobody last": {list: func(r []keyring.Key) []keyring.Key {
			r[2].Public, r[2].Rotation = public(9), keyring.Rotate(secondOrigin, 2, private(2), private(9))
			return r
		}, at: 2, why: "not among the company's"},
		"a beginning later":  {list: func(r []keyring.Key) []keyring.Key { r[0].From = 1; return r }, at: 0, why: "first key is missing"},
		"the first left out": {list: func(r []keyring.Key) []keyring.Key { return r[1:] }, at: 0, why: "first key is missing"},
		"no statement":       {list: func(r []keyring.Key) []keyring.Key { r[1].Rotation = nil; return r }, at: 1, why: "no statement"},
		"the statement of the other log": {list: func(r []keyring.Key) []keyring.Key {
			r[1].From, r[1].Rotation = ring()[2].From, ring()[2].Rotation
			return r
		}, at: 1, why: "something else"},
		"a key left out":              {list: func(r []keyring.Key) []keyring.Key { return slices.Delete(r, 1, 2) }, at: 1, why: "key 2 is missing"},
		"the last left out":           {list: func(r []keyring.Key) []keyring.Key { return r[:2] }, at: 1, why: "no key follows"},
		"not proven in the other log": {all: func(r []keyring.Key) []keyring.Key { r[2].Rotation = nil; return r }, at: 1, why: "no statement"},
		"missing in the other log":    {all: func(r []keyring.Key) []keyring.Key { return r[:3] }, at: 1, why: "no key follows"},
		"the other log of nobody":     {all: func(r []keyring.Key) []keyring.Key { return nil }, at: 0, why: "not among"},
	} {
		list, all := secondRing(1), ring()
		if c.list != nil {
			list = c.list(list)
		}
		if c.all != nil {
			all = c.all(all)
		}
		f := flaws(list, all)
		at := slices.IndexFunc(f, func(f string) bool { return f != "" })
		if at != c.at || !strings.Contains(f[at], c.why) || slices.Contains(f[at:], "") {
			t.Errorf("%s: %q, want %q from %d on", name, f, c.why, c.at)
		}
	}
}
