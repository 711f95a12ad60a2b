package test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"attestd/crypto/statement"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// placedStatement is what a checker of sessions reads of a statement; its record has the index Seq.
type placedStatement struct {
	Seq  int64  `json:"seq"`
	Prev string `json:"prev,omitempty"`
	End  bool   `json:"end,omitempty"`
	Hash string `json:"hash"`

	Named []namedPlace `json:"refused,omitempty"`
}

type namedPlace struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}

// placedSession are the statements of a session in the order of a file.
type placedSession struct {
	Name       string            `json:"name"`
	Statements []placedStatement `json:"statements"`
}

func (s *placedSession) text(seq int64) string { return fmt.Sprint(s.Name, " ", seq) }

func (s *placedSession) add(seq int64, prev string, end bool, named ...namedPlace) {
	s.Statements = append(s.Statements, placedStatement{Seq: seq, Prev: prev, End: end, Hash: statement.Hash(s.text(seq)), Named: named})
}

// after is prev of the statement at a place, where the one before is not another one.
func (s *placedSession) after(seq int64) string {
	if seq == 0 {
		return ""
	}
	return statement.Hash(s.text(seq - 1))
}

func (s *placedSession) place(seq int64) namedPlace {
	return namedPlace{seq, statement.Hash(s.text(seq))}
}

// verdict is what package statement finds: the state, and what the service recorded although it had
// refused it; or that the session contradicts itself.
func (s *placedSession) verdict() string {
	q := new(statement.Sequence)
	for _, one := range s.Statements {
		made := &statement.Statement{Compact: s.text(one.Seq)}
		made.Seq, made.Previous, made.End = one.Seq, one.Prev, one.End
		for _, r := range one.Named {
			made.Refused = append(made.Refused, statement.Refused{Seq: r.Seq, Hash: r.Hash, Code: "A"})
		}
		if err := q.Add(made, one.Seq); err != nil {
			return "contradiction"
		}
	}
	recorded := q.RecordedAfterRefusal
	if recorded == nil {
		recorded = [][2]int64{}
	}
	text, _ := json.Marshal(recorded) // numbers always can be
	return fmt.Sprint(stateOfPlaces(q), " ", string(text), " ", q.MoreRecorded)
}

// stateOfPlaces is the state of a session in the words of every checker.
func stateOfPlaces(q *statement.Sequence) string {
	refused := ""
	if q.Refused > 0 {
		refused = fmt.Sprintf(", %d refused", q.Refused)
	}
	ranges, all := q.Missing()
	switch {
	case all == 0 && q.Sealed:
		return fmt.Sprintf("complete: 0 to %d, sealed", q.Last) + refused
	case all == 0:
		return fmt.Sprintf("open at %d", q.Last) + refused
	}
	var gaps []string
	for _, r := range ranges {
		if gap := fmt.Sprint(r[0]); r[0] == r[1] {
			gaps = append(gaps, gap)
		} else {
			gaps = append(gaps, fmt.Sprint(gap, "–", r[1]))
		}
	}
	text := "missing " + strings.Join(gaps, ", ")
	if all > 100 {
		text += fmt.Sprintf(" and %d ranges more", all-100)
	}
	if !q.Sealed {
		text += fmt.Sprintf(", open at %d", q.Last)
	}
	return text + refused
}

// randomSession is short, and mostly sound.
func randomSession(seed uint64) *placedSession {
	random := rand.New(rand.NewPCG(seed, 2))
	s := &placedSession{Name: fmt.Sprint("random ", seed)}
	odd := func(one int, hash string) string {
		if random.IntN(one) == 0 {
			return statement.Hash("odd")
		}
		return hash
	}
	for seq := int64(random.IntN(3) * random.IntN(2)); len(s.Statements) < 12; seq += int64(1 + random.IntN(3)*random.IntN(2)) {
		prev := s.after(seq)
		if seq > 0 {
			prev = odd(60, prev)
		}
		var named []namedPlace
		for at := range seq {
			if random.IntN(4) == 0 {
				r := s.place(at)
				if r.Hash = odd(300, r.Hash); at == seq-1 {
					r.Hash = prev // which the form demands
				}
				named = append(named, r)
			}
		}
		end := random.IntN(8) == 0
		s.add(seq, prev, end, named...)
		if end && random.IntN(8) > 0 {
			break
		}
		if seq > 1 && random.IntN(60) == 0 {
			seq -= 2
		}
	}
	return s
}

// longSessions reach what a checker remembers: 1,000 ranges, 10,000 refused places, 4,096
// statements, 100 places that were recorded after all.
func longSessions() (all []*placedSession) {
	named := func(s *placedSession, from, to, step int64) (places []namedPlace) {
		for at := from; at < to; at += step {
			places = append(places, s.place(at))
		}
		return places
	}
	// each second place is missing, and named later
	for _, gaps := range []int64{999, 1000, 1001, 1200} {
		s := &placedSession{Name: fmt.Sprint("gaps ", gaps)}
		for i := range gaps + 1 {
			s.add(2*i, s.after(2*i), false)
		}
		seq := 2*gaps + 1
		for at := int64(1); at < 2*gaps; at += 200 {
			s.add(seq, s.after(seq), false, named(s, at, min(at+200, 2*gaps), 2)...)
			seq++
		}
		all = append(all, s)
	}
	parted := &placedSession{Name: "ranges that would be parted"}
	for i := range int64(1001) {
		parted.add(4*i, parted.after(4*i), false)
	}
	parted.add(4001, parted.after(4001), false, parted.place(2))
	parted.add(4002, parted.after(4002), true, parted.place(1), parted.place(2), parted.place(7))
	many := &placedSession{Name: "more refused than are remembered"}
	for at := int64(0); at < 10_300; at += 100 {
		seq := at + 100 + at/100
		many.add(seq, many.after(seq), false, named(many, seq-100, seq, 1)...)
	}
	for _, count := range []int64{4095, 4096, 4097, 4300} { // the first is named by the last
		s := &placedSession{Name: fmt.Sprint("recorded long ago ", count)}
		for seq := range count {
			s.add(seq, s.after(seq), false)
		}
		s.add(count, s.after(count), true, s.place(0), s.place(1), s.place(count-1))
		all = append(all, s)
	}
	lies := &placedSession{Name: "more recorded than are told"}
	for seq := range int64(205) {
		lies.add(seq, lies.after(seq), false)
	}
	lies.add(205, lies.after(205), false, named(lies, 0, 100, 1)...)
	lies.add(206, lies.after(206), true, named(lies, 50, 150, 1)...)
	return append(all, parted, many, lies)
}

// The checkers read the places of a session alike: what is missing, what was refused, what was
// recorded all the same, and what contradicts itself, also at the limits of what they remember.
func TestCheckersAgreeOnPlaces(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	sessions := longSessions()
	for seed := range uint64(2000) {
		sessions = append(sessions, randomSession(seed))
	}
	want, kinds := make([]string, len(sessions)), map[string]int{}
	for i, s := range sessions {
		want[i] = s.verdict()
		kinds[strings.SplitN(want[i], " ", 2)[0]]++
	}
	t.Logf("%d sessions: %v", len(sessions), kinds)
	for _, kind := range []string{"complete:", "open", "missing", "contradiction"} {
		if kinds[kind] < 50 {
			t.Errorf("only %d sessions come to %q", kinds[kind], kind)
		}
	}
	given, err := json.Marshal(sessions)
	must.OK(t, err)
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "places.json"), given, 0o600))
	for _, name := range []string{"../sdk/python/attestd/check.py", "../web/check.mjs", "testdata/verdicts_places.py", "testdata/verdicts_places.mjs"} {
		text, err := os.ReadFile(name)
		must.OK(t, err)
		must.OK(t, os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600))
	}
	library, err := filepath.Abs("../web/console/lib/sequence.js")
	must.OK(t, err)
	for name, verdicts := range map[string][]string{
		"check.py":    script(t, dir, pythonWithCryptography(t), "verdicts_places.py"),
		"check.mjs":   script(t, dir, testenv.Path(t, "node"), "verdicts_places.mjs"),
		"sequence.js": script(t, dir, testenv.Path(t, "node"), "verdicts_places.mjs", library),
	} {
		if len(verdicts) != len(want) {
			t.Fatalf("%s: %d verdicts on %d sessions", name, len(verdicts), len(want))
		}
		for i := range want {
			if verdicts[i] != want[i] {
				t.Errorf("%s: %s: %.300s, want %.300s", name, sessions[i].Name, verdicts[i], want[i])
			}
		}
	}
}
