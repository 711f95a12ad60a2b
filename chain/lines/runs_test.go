package lines_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/chain/evidence"
	"attestd/chain/lines"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// handedOver are the lines of a hand-over: one server is halted, another one goes on from the saved
// position, and the first one wakes and sends its batch.
func handedOver(t testing.TB, first, second string) *company {
	c := newCompany(t, "acme")
	for i := range 6 {
		c.add(0, fmt.Sprintf(`{"n":%d}`, i))
	}
	c.add(1, `{"subject":"agent:build-bot"}`)
	c.as(first)
	c.open()
	c.send(0, 3)
	c.send(1, 1)
	c.checkpoint(0)
	c.checkpoint(1)
	c.as(second)
	c.logs[0].sent, c.logs[1].sent = 2, 1
	c.open()
	c.send(0, 4) // to 6
	c.checkpoint(0)
	c.as(first)
	c.send(0, 2) // from 3 to 5
	c.checkpoint(0)
	c.as(second)
	c.add(0, `{"n":6}`)
	c.send(0, 1)
	c.checkpoint(0)
	return c
}

// A server that was halted and has sent once more when another one had gone on spoils no lines: the
// two runs of the export are distinguished, and what came again is counted. Lines that name no run
// have no such excuse.
func TestInterleavedRunsHold(t *testing.T) {
	t.Parallel()
	v := check(t, pin(0), handedOver(t, "A", "B").out...)
	if v.Outcome != evidence.Holds || len(v.Logs) != 2 || v.Logs[0] != (lines.Part{Log: "actions", Next: 7, To: 7, Repeated: 3, Openings: 2, Runs: 2}) {
		t.Fatalf("%+v", v)
	}
	if text := strings.Join(v.Checked, "\n"); !strings.Contains(text, "log actions: run A has sent 2 records again") ||
		!strings.Contains(text, "log actions: run B has sent 1 records again") {
		t.Error(text)
	}
	// a server of an older version and one of this version
	for _, names := range [][2]string{{"", "B"}, {"A", ""}} {
		if v := check(t, pin(0), handedOver(t, names[0], names[1]).out...); v.Outcome != evidence.Holds {
			t.Errorf("%q: %+v", names, v)
		}
	}
	for _, name := range []string{"", "A"} {
		c := newCompany(t, "acme")
		for range 4 {
			c.add(0, `{}`)
		}
		c.run = name
		c.open()
		c.send(0, 4)
		c.logs[0].sent = 3
		c.send(0, 1)
		if v := check(t, pin(0), c.out...); v.Code != lines.Repeated {
			t.Errorf("one run, %q: %+v", name, v)
		}
	}
}

// Lines of two runs hide no loss: whichever line is deleted, doubled or changed, no verdict is
// wrong, and a record that one run alone has sent is missed.
func TestInterleavedRunsHideNothing(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	c := handedOver(t, "A", "B")
	for i, l := range c.out {
		for what, text := range map[string][]string{
			"deleted": slices.Delete(slices.Clone(c.out), i, i+1),
			"doubled": slices.Insert(slices.Clone(c.out), i, l),
			"ends":    slices.Clone(c.out[:i]),
		} {
			v := check(t, pin(0), text...)
			if v.Outcome == evidence.Fails {
				continue
			}
			if err := wrongVerdict(t, c, text, v); err != nil {
				t.Errorf("line %d %s: %v", i+1, what, err)
			}
			var r struct {
				Type, Log string
				Index     int64
			}
			must.OK(t, json.Unmarshal([]byte(l), &r))
			isLast := r.Index == 6 || r.Log == "control"
			if r.Type == lines.TypeRecord && what == "deleted" && strings.Count(strings.Join(c.out, "\n"), fmt.Sprintf(`"log":%q,"index":%d,"hash"`, r.Log, r.Index)) == 1 && !isLast ||
				r.Type == lines.TypeRecord && what == "doubled" {
				t.Errorf("line %d %s, and it holds: %s", i+1, what, l)
			}
		}
		if strings.Contains(l, `"type":"record"`) {
			changed := slices.Clone(c.out)
			if changed[i] = strings.Replace(l, `"n":`, `"m":`, 1); changed[i] != l {
				if v := check(t, pin(0), changed...); v.Code != lines.BadRecord {
					t.Errorf("line %d changed: %+v", i+1, v)
				}
			}
		}
	}
	// another history under the name of another run
	d := newCompany(t, "acme")
	for range 6 {
		d.add(0, `{"other":true}`)
	}
	d.run, d.logs[0].sent = "C", 2
	d.open()
	d.send(0, 1)
	for _, from := range []int{0, 1, 3} {
		if v := check(t, pin(0), slices.Concat(c.out, d.out[from:])...); v.Outcome != evidence.Fails {
			t.Errorf("from line %d on: %+v", from, v)
		}
	}
}

// However often the export is handed over, whatever a run sends again, and whichever run sends what
// late, its lines hold in the order in which they came, and sorted, as a search engine has them
// that drops what it has already.
func TestHandedOverAtRandomHolds(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	for seed := range uint64(testenv.Rounds(40, 2_000)) {
		random := rand.New(rand.NewPCG(seed, 36))
		c := newCompany(t, "acme")
		for range 40 {
			c.add(0, `{}`)
		}
		c.add(1, `{"subject":"agent:bot"}`)
		c.run = "run-0"
		c.open()
		c.send(1, 1)
		c.checkpoint(1)
		// what was acknowledged, so that the next run begins there or before
		acknowledged := int64(0)
		batch := func() {
			l := c.logs[0]
			c.now = c.now.Add(time.Second)
			c.send(0, min(random.IntN(6), len(l.records)-int(l.sent)))
			if random.IntN(2) == 0 && l.sent > l.previous {
				c.checkpoint(0)
			}
			acknowledged = max(acknowledged, l.sent)
		}
		for range 12 {
			switch random.IntN(4) {
			case 0: // handed over
				c.now = c.now.Add(time.Second)
				c.as(fmt.Sprint("run-", len(c.halted)+1))
				c.logs[0].sent = random.Int64N(acknowledged + 1)
				c.open()
			case 1: // a halted one wakes
				names := []string{c.run}
				for name := range c.halted {
					if name != "" {
						names = append(names, name)
					}
				}
				slices.Sort(names)
				now := c.run
				c.as(names[random.IntN(len(names))])
				batch()
				c.as(now)
			case 2: // a batch is not acknowledged, and comes again
				l, at := c.logs[0], acknowledged
				before := l.place
				batch()
				l.place, acknowledged = before, at
				c.now = c.now.Add(time.Second)
				c.open()
			default:
				batch()
			}
		}
		c.send(0, len(c.logs[0].records)-int(c.logs[0].sent))
		c.now = c.now.Add(time.Second)
		c.checkpoint(0)
		for what, text := range map[string][]string{"as it came": c.out, "documents": documents(t, c.out, true), "sorted": documents(t, c.out, false)} {
			v := check(t, pin(0), text...)
			if v.Outcome != evidence.Holds || v.Logs[0].Next != 40 || v.Logs[0].To != 40 {
				t.Fatalf("seed %d, %s: %+v\n%s", seed, what, v, brief(text))
			}
		}
	}
}

// documents are lines as a search engine returns them, sorted by log, index, type and previous:
// each ID once, the first of it, or each text once.
func documents(t testing.TB, text []string, byID bool) []string {
	t.Helper()
	type document struct {
		Type, Log, Run, CompanyID string
		At                        string `json:"@timestamp"`
		Index, Previous           int64
		Consistency               string

		text string
	}
	var list []document
	seen := map[string]bool{}
	for _, l := range text {
		var d document
		must.OK(t, json.Unmarshal([]byte(l), &d))
		id := lines.ID(d.Type, d.CompanyID, d.Run, d.Log, d.Index, d.At, lines.Signer([]byte(afterProof(d.Consistency))))
		if !byID {
			id = l
		}
		if !seen[id] {
			seen[id] = true
			d.text = l
			list = append(list, d)
		}
	}
	slices.SortStableFunc(list, func(a, b document) int {
		return cmp.Or(cmp.Compare(a.Log, b.Log), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Previous, b.Previous))
	})
	var sorted []string
	for _, d := range list {
		sorted = append(sorted, d.text)
	}
	return sorted
}

// afterProof returns the signed checkpoint behind a consistency proof.
func afterProof(consistency string) string {
	_, signed, _ := strings.Cut(consistency, "\n\n")
	return signed
}

// brief lists lines without what is in them.
func brief(text []string) string {
	var b strings.Builder
	for _, l := range text {
		var d struct {
			Type, Log, Run  string
			Index, Previous int64
		}
		_ = json.Unmarshal([]byte(l), &d)
		fmt.Fprintln(&b, d.Run, d.Log, d.Type, d.Index, d.Previous)
	}
	return b.String()
}

// The name of a run is short and plain, and an archive has none.
func TestNamesOfRuns(t *testing.T) {
	t.Parallel()
	for name, isOne := range map[string]bool{"": false, "A": true, "ab-CD_09": true, strings.Repeat("x", 64): true, strings.Repeat("x", 65): false,
		"a b": false, "ü": false, `a\nb`: false, "a/b": false} {
		c := handedOver(t, "RUN", "B")
		for i, l := range c.out {
			c.out[i] = strings.Replace(l, `"run":"RUN"`, `"run":"`+name+`"`, 1)
		}
		if v := check(t, pin(0), c.out...); (v.Outcome == evidence.Holds) != isOne || !isOne && v.Code != evidence.Malformed && v.Code != evidence.KeysUnproven {
			t.Errorf("%q: %+v", name, v)
		}
	}
	c := sample(t)
	text := c.archive(6, 2)
	text[3] = strings.Replace(text[3], `"companyId":"acme"`, `"companyId":"acme","run":"A"`, 1)
	if v := checkArchive(t, pin(0), text...); v.Code != evidence.Malformed || !strings.Contains(v.Reason, "run") {
		t.Errorf("an archive with a run: %+v", v)
	}
}

// The check remembers a bounded number of runs, and goes on with one that it has forgotten.
func TestRunsAreBounded(t *testing.T) {
	t.Parallel()
	c := newCompany(t, "acme")
	c.add(0, `{}`)
	c.open()
	c.send(0, 1)
	c.checkpoint(0)
	for i := range 1000 {
		c.as(fmt.Sprint("run", i))
		c.open()
	}
	c.add(0, `{}`)
	c.as("run0")
	c.send(0, 1)
	c.checkpoint(0)
	if v := check(t, pin(0), c.out...); v.Outcome != evidence.Holds || v.Logs[0].To != 2 {
		t.Errorf("%+v", v)
	}
}
