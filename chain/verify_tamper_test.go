package chain_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"attestd/chain"
	"attestd/internal/testenv"
)

// fixtureSize has two stored nodes, and 88 records after them.
const fixtureSize = 600

func swapRows(s *stored, i, j int) {
	s.rows[i], s.rows[j] = s.rows[j], s.rows[i]
	s.rows[i].Index, s.rows[j].Index = s.rows[j].Index, s.rows[i].Index
}

func TestVerifyFindsTheFirstFailure(t *testing.T) {
	t.Parallel()
	original := newDisk(1)
	grow(t, original, 1, 0, fixtureSize)
	for _, c := range []struct {
		name   string
		tamper func(s *stored)
		at     int64
		reason string
	}{
		// every column of a row
		{"payload edited", func(s *stored) { edit(&s.rows[300].Payload, `"z"`, `"y"`) }, 300, "hash"},
		{"payload is no JSON", func(s *stored) { s.rows[300].Payload = []byte("{") }, 300, "canonical form"},
		{"payload with a duplicate key", func(s *stored) { edit(&s.rows[300].Payload, `"z"`, `"z":1,"z"`) }, 300, "canonical form"},
		{"payload gone", func(s *stored) { s.rows[300].Payload = nil }, 300, "was not pruned"},
		{"timestamp edited", func(s *stored) { s.rows[300].Timestamp = "2001" + s.rows[300].Timestamp[4:] }, 300, "hash"},
		{"timestamp is none", func(s *stored) { s.rows[300].Timestamp = "yesterday" }, 300, "timestamp"},
		{"border between timestamp and payload moved", func(s *stored) {
			r := &s.rows[300]
			r.Timestamp += "|" + string(draft(1, 300).Canonical)
			r.Payload, r.Delegation = r.Delegation, nil
		}, 300, "timestamp"},
		{"delegation edited", func(s *stored) { edit(&s.rows[300].Delegation, `"s"`, `"x"`) }, 300, "hash"},
		{"delegation taken away", func(s *stored) { s.rows[300].Delegation = nil }, 300, "hash"},
		{"delegation added", func(s *stored) { s.rows[301].Delegation = s.rows[300].Delegation }, 301, "hash"},
		{"hash edited", func(s *stored) { s.rows[300].Hash[31] ^= 1 }, 300, "hash"},
		{"signature edited", func(s *stored) { s.rows[300].Signature[63] ^= 1 }, 300, "signature"},
		{"index edited", func(s *stored) { s.rows[300].Index = 299 }, 299, "twice"},

		// changes that keep dependent fields consistent
		{"payload and hash", func(s *stored) {
			edit(&s.rows[300].Payload, `"z"`, `"y"`)
			signature := s.rows[300].Signature
			reseal(&s.rows[300], key)
			s.rows[300].Signature = signature
			rebuild(s)
		}, 300, "signature"},
		{"signed with a foreign key", func(s *stored) {
			reseal(&s.rows[300], otherKey)
			rebuild(s)
		}, 300, "signature"},
		{"rewritten with the company's key, below a stored node", func(s *stored) {
			edit(&s.rows[300].Payload, `"z"`, `"y"`)
			reseal(&s.rows[300], key)
		}, 511, "node 1 of level 8"},
		{"rewritten with the company's key, after the last stored node", func(s *stored) {
			edit(&s.rows[512].Payload, `"z"`, `"y"`)
			reseal(&s.rows[512], key)
		}, 599, "root"},
		{"earlier than the record before", func(s *stored) {
			s.rows[300].Timestamp = "2001" + s.rows[300].Timestamp[4:]
			reseal(&s.rows[300], key)
			rebuild(s)
		}, 300, "earlier"},
		{"a record of another place", func(s *stored) {
			index := s.rows[300].Index
			s.rows[300] = s.rows[200]
			s.rows[300].Index = index
		}, 300, "hash"},

		// rows as such
		{"first row gone", func(s *stored) { s.rows = s.rows[1:] }, 0, "missing"},
		{"a row gone", func(s *stored) { s.rows = slices.Delete(s.rows, 300, 301) }, 300, "missing"},
		{"many rows gone", func(s *stored) { s.rows = slices.Delete(s.rows, 5, 590) }, 5, "missing"},
		{"last row cut off", func(s *stored) { s.rows = s.rows[:599] }, 599, "missing"},
		{"many rows cut off", func(s *stored) { s.rows = s.rows[:256] }, 256, "missing"},
		{"all rows cut off", func(s *stored) { s.rows = nil }, 0, "missing"},
		{"a row twice", func(s *stored) { s.rows = slices.Insert(s.rows, 300, s.rows[300]) }, 300, "twice"},
		{"two rows swapped", func(s *stored) { swapRows(s, 300, 400) }, 300, "hash"},
		{"a row beyond the head", func(s *stored) {
			r := s.rows[0]
			r.Index = 600
			reseal(&r, key)
			s.rows = append(s.rows, r)
		}, 600, "beyond"},

		// nodes and head
		{"first node edited", func(s *stored) { n := s.nodes[[2]int64{8, 0}]; n[0] ^= 1; s.nodes[[2]int64{8, 0}] = n }, 255, "node 0 of level 8"},
		{"first node of the log tree edited", func(s *stored) { n := s.log[[2]int64{8, 0}]; n[0] ^= 1; s.log[[2]int64{8, 0}] = n }, 255, "node 0 of level 8 of the log tree"},
		{"root of the log tree edited", func(s *stored) { s.head.LogRoot[0] ^= 1 }, 599, "root of the log tree"},
		{"frontier of the log tree edited", func(s *stored) { s.head.Log.Roots = s.head.Log.Roots[:1] }, 599, "frontier of the log tree"},
		{"length of the log tree edited", func(s *stored) { s.head.Log.Size = 512 }, 599, "frontier of the log tree"},
		{"second node gone", func(s *stored) { delete(s.nodes, [2]int64{8, 1}) }, 511, "missing"},
		{"root edited", func(s *stored) { s.head.Root[0] ^= 1 }, 599, "root"},
		{"frontier edited", func(s *stored) { s.head.Frontier = s.head.Frontier[:1] }, 599, "frontier"},
		{"time of the head edited", func(s *stored) { s.head.Timestamp = "" }, 599, "time"},
		{"length of the head raised", func(s *stored) { s.head.Length = 602 }, 600, "missing"},
		{"length of the head lowered", func(s *stored) { s.head.Length = 590 }, 590, "beyond"},
		{"length of the head negative", func(s *stored) { s.head.Length = -1 }, 0, "negative"},
		{"head gone", func(s *stored) { s.gone = true }, 0, "head is missing"},
		{"head of an empty chain", func(s *stored) { s.head = chain.EmptyHead() }, 0, "beyond"},

		// the first of several
		{"two edited rows", func(s *stored) { s.rows[400].Hash[0] ^= 1; s.rows[20].Signature[0] ^= 1 }, 20, "signature"},
		{"a wrong node before an edited row", func(s *stored) { delete(s.nodes, [2]int64{8, 0}); s.rows[256].Hash[0] ^= 1 }, 255, "node"},
		{"an edited row before a wrong node", func(s *stored) { delete(s.nodes, [2]int64{8, 0}); s.rows[255].Hash[0] ^= 1 }, 255, "hash"},
		{"an edited row before a cut", func(s *stored) { s.rows = s.rows[:500]; s.rows[499].Hash[0] ^= 1 }, 499, "hash"},
		{"a gap before a row beyond the head", func(s *stored) {
			s.head.Length = 590
			s.rows = slices.Delete(s.rows, 589, 590)
		}, 589, "missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := original.clone()
			warm := chain.NewVerifier(d, 2)
			if v := mustVerify(t, warm, 1); !v.Valid {
				t.Fatalf("before: %+v", v)
			}
			d.tamper(1, c.tamper)
			verifiers := map[string]*chain.Verifier{"three workers": chain.NewVerifier(d, 3), "verified before": warm}
			if testenv.Long() {
				verifiers["one worker"], verifiers["again"] = chain.NewVerifier(d, 1), warm
			}
			for name, verifier := range verifiers {
				v := mustVerify(t, verifier, 1)
				if v.Valid || v.FailedAt != c.at || !strings.Contains(v.Reason, c.reason) || v.Length > c.at+1 || v.Root != (chain.Hash{}) {
					t.Errorf("%s: %+v, want failure at %d for its %s", name, v, c.at, c.reason)
				}
			}
		})
	}
}

func edit(field *[]byte, old, new string) {
	if !bytes.Contains(*field, []byte(old)) {
		panic("nothing to edit")
	}
	*field = bytes.Replace(*field, []byte(old), []byte(new), 1)
}

func mustVerify(t testing.TB, v *chain.Verifier, c int64) chain.Verdict {
	t.Helper()
	verdict, err := v.Verify(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return verdict
}
