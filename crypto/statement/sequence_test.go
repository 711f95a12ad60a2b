package statement_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"attestd/crypto/statement"
	"attestd/internal/must"
)

// stmt is a statement of which a sequence reads what follows; its hash is that of the text.
func stmt(seq int64, previous string, refused ...statement.Refused) *statement.Statement {
	s := &statement.Statement{Compact: fmt.Sprint("statement ", seq)}
	s.Seq, s.Previous, s.Refused = seq, previous, refused
	return s
}

// hashOf is the hash of stmt(seq, …), and of another statement where other is not 0.
func hashOf(seq int64, other int) string {
	if other == 0 {
		return statement.Hash(fmt.Sprint("statement ", seq))
	}
	return statement.Hash(fmt.Sprint("another statement ", seq, other))
}

func refusedAt(seq int64, other int) statement.Refused {
	return statement.Refused{Seq: seq, Hash: hashOf(seq, other), Code: "A"}
}

// slow is what a Sequence does, without bounds and place by place.
type slow struct {
	last     int64 // -1 at the beginning
	sealed   bool
	there    map[int64]string // hashes by place, as index the place itself
	prev     map[int64]string // of the statement after a missing place
	named    map[int64]string // hashes of places that are missing and named
	recorded [][2]int64
}

var errSlow = errors.New("contradiction")

func (m *slow) add(s *statement.Statement) error {
	if s.Seq <= m.last || m.sealed {
		return errSlow
	}
	if hash, is := m.there[s.Seq-1]; is && hash != s.Previous {
		return errSlow
	}
	if _, is := m.there[s.Seq-1]; !is && s.Seq > 0 {
		m.prev[s.Seq-1] = s.Previous
	}
	for _, r := range s.Refused {
		if hash, is := m.there[r.Seq]; is {
			if hash != r.Hash {
				return errSlow
			}
			if at := [2]int64{r.Seq, r.Seq}; !slices.Contains(m.recorded, at) {
				m.recorded = append(m.recorded, at)
			}
			continue
		}
		if hash, is := m.named[r.Seq]; is && hash != r.Hash {
			return errSlow
		}
		if prev, is := m.prev[r.Seq]; is && prev != r.Hash {
			return errSlow
		}
		m.named[r.Seq] = r.Hash
	}
	m.last, m.sealed, m.there[s.Seq] = s.Seq, s.End, s.Hash()
	return nil
}

func (m *slow) missing() (ranges [][2]int64) {
	ranges = [][2]int64{}
	for seq := range m.last + 1 {
		_, isThere := m.there[seq]
		_, isNamed := m.named[seq]
		switch n := len(ranges); {
		case isThere || isNamed:
		case n > 0 && ranges[n-1][1] == seq-1:
			ranges[n-1][1] = seq
		default:
			ranges = append(ranges, [2]int64{seq, seq})
		}
	}
	return ranges
}

// Random sessions, most of them sound, are read as they are place by place.
func TestSequenceIsTheSlowOne(t *testing.T) {
	t.Parallel()
	outcomes := map[string]int{}
	for seed := range uint64(4000) {
		random := rand.New(rand.NewPCG(seed, 1))
		odd := func(one int) int { // 0 mostly
			if random.IntN(one) == 0 {
				return 1
			}
			return 0
		}
		q, m := new(statement.Sequence), &slow{last: -1, there: map[int64]string{}, prev: map[int64]string{}, named: map[int64]string{}}
		for seq, count := int64(random.IntN(3)), 0; count < 20; count++ {
			previous := ""
			if seq > 0 {
				previous = hashOf(seq-1, odd(40))
			}
			var refused []statement.Refused
			for at := range seq {
				if random.IntN(4) == 0 {
					r := refusedAt(at, odd(60))
					if at == seq-1 {
						r.Hash = previous // which the form demands
					}
					refused = append(refused, r)
				}
			}
			s := stmt(seq, previous, refused...)
			s.End = random.IntN(12) == 0
			err, want := q.Add(s, seq), m.add(s)
			if (err == nil) != (want == nil) {
				t.Fatalf("seed %d, seq %d: %v, want %v", seed, seq, err, want)
			}
			if err != nil {
				outcomes["contradiction"]++
				break
			}
			ranges, all := q.Missing()
			if !reflect.DeepEqual(ranges, m.missing()) || all != len(ranges) || q.Refused != len(m.named) || !reflect.DeepEqual(q.RecordedAfterRefusal, m.recorded) ||
				q.Last != m.last || q.Sealed != m.sealed || q.Records != int64(len(m.there)) {
				t.Fatalf("seed %d, seq %d: %v %d, %v; want %v %d, %v", seed, seq, ranges, q.Refused, q.RecordedAfterRefusal, m.missing(), len(m.named), m.recorded)
			}
			outcomes[fmt.Sprint(len(ranges) > 0, q.Refused > 0, len(q.RecordedAfterRefusal) > 0, q.Sealed)]++
			if seq += int64(1 + random.IntN(3)*random.IntN(2)); random.IntN(80) == 0 {
				seq -= 2
			}
			if seq < 0 {
				break
			}
		}
	}
	if len(outcomes) < 12 {
		t.Errorf("the sessions come to no more than %v", outcomes)
	}
}

// Of more ranges than a sequence remembers, the session stays missing, whatever is named.
func TestSequenceForgetsRanges(t *testing.T) {
	t.Parallel()
	for _, gaps := range []int64{1000, 1001} {
		q := new(statement.Sequence)
		for i := range gaps + 1 { // the even places are there
			must.OK(t, q.Add(stmt(2*i, prevOf(2*i), nil...), 2*i))
		}
		seq := 2*gaps + 1
		for at := int64(1); at < 2*gaps; {
			var names []statement.Refused
			for ; at < 2*gaps && len(names) < statement.MaxRefused; at += 2 {
				names = append(names, refusedAt(at, 0))
			}
			must.OK(t, q.Add(stmt(seq, hashOf(seq-1, 0), names...), seq))
			seq++
		}
		ranges, all := q.Missing()
		if len(ranges) != 0 || int64(all) != gaps-1000 || q.Refused != 1000 || q.RecordedAfterRefusal != nil {
			t.Errorf("of %d gaps: %v, %d, %d refused, %v", gaps, ranges, all, q.Refused, q.RecordedAfterRefusal)
		}
	}
	// an entry that would part a range makes none where there are as many as may be
	q := new(statement.Sequence)
	for i := range int64(1001) {
		must.OK(t, q.Add(stmt(4*i, prevOf(4*i)), 4*i))
	}
	must.OK(t, q.Add(stmt(4001, hashOf(4000, 0), refusedAt(2, 0)), 4001))
	if ranges, all := q.Missing(); all != 1000 || ranges[0] != [2]int64{1, 3} || q.Refused != 0 {
		t.Errorf("%v, %d, %d refused", ranges[0], all, q.Refused)
	}
	must.OK(t, q.Add(stmt(4002, hashOf(4001, 0), refusedAt(1, 0), refusedAt(2, 0)), 4002))
	if ranges, _ := q.Missing(); ranges[0] != [2]int64{3, 3} || q.Refused != 2 {
		t.Errorf("%v, %d refused", ranges[0], q.Refused)
	}
}

// Places that were refused beyond what a sequence remembers stay missing.
func TestSequenceForgetsRefusals(t *testing.T) {
	t.Parallel()
	q := new(statement.Sequence)
	must.OK(t, q.Add(stmt(0, ""), 0))
	seq := int64(11000)
	for at := int64(1); at < 10500; {
		var names []statement.Refused
		for ; len(names) < statement.MaxRefused; at++ {
			names = append(names, refusedAt(at, 0))
		}
		must.OK(t, q.Add(stmt(seq, hashOf(seq-1, 0), names...), seq))
		seq++
	}
	if ranges, all := q.Missing(); all != 1 || ranges[0] != [2]int64{10001, 10999} || q.Refused != 10_000 {
		t.Errorf("%v, %d refused", ranges, q.Refused)
	}
	if err := q.Add(stmt(seq, hashOf(seq-1, 0), refusedAt(10_000, 1)), seq); err == nil {
		t.Error("another hash of the last that is remembered passes")
	}
}

// The last 4,096 statements are compared with what is named as refused, the ones before are not.
func TestSequenceForgetsStatements(t *testing.T) {
	t.Parallel()
	const last = 5000
	filled := func() *statement.Sequence {
		q := new(statement.Sequence)
		for seq := range int64(last) {
			must.OK(t, q.Add(stmt(seq, prevOf(seq)), seq+7))
		}
		return q
	}
	q := filled()
	must.OK(t, q.Add(stmt(last, prevOf(last), refusedAt(last-4097, 1), refusedAt(last-4096, 0)), 1))
	if want := [][2]int64{{last - 4097, -1}, {last - 4096, last - 4096 + 7}}; !reflect.DeepEqual(q.RecordedAfterRefusal, want) {
		t.Errorf("%v, want %v", q.RecordedAfterRefusal, want)
	}
	err := filled().Add(stmt(last, prevOf(last), refusedAt(last-4096, 1)), 1)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint("in record ", last-4096+7)) {
		t.Errorf("another statement than the one that is remembered: %v", err)
	}
	// each place is listed once, the first hundred of them
	q = filled()
	var names []statement.Refused
	for seq := int64(last - 100); seq < last-1; seq++ {
		names = append(names, refusedAt(seq, 0))
	}
	for seq := int64(last); seq < last+3; seq++ {
		must.OK(t, q.Add(stmt(seq, prevOf(seq), slices.Insert(slices.Clone(names), 0, refusedAt(seq-200, 0))...), seq))
	}
	if len(q.RecordedAfterRefusal) != 100 || !q.MoreRecorded {
		t.Errorf("%d are listed, more %v", len(q.RecordedAfterRefusal), q.MoreRecorded)
	}
}

func prevOf(seq int64) string {
	if seq == 0 {
		return ""
	}
	return hashOf(seq-1, 0)
}
