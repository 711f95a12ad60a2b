package search_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"attestd/chain"
	"attestd/chain/decision"
	"attestd/chain/search"
	"attestd/internal/testenv"
)

// memoryChain has a chain and its summaries in memory. It logs which records were read.
type memoryChain struct {
	records   []chain.Record
	summaries map[int64][]byte
	read      []int64
}

func (s *memoryChain) Records(_ context.Context, _, from, to int64, yield func(*chain.Record) error) error {
	for i := max(from, 0); i < min(to, int64(len(s.records))); i++ {
		if err := s.lend(i, yield); err != nil {
			return err
		}
	}
	return nil
}

func (s *memoryChain) RecordsBackward(_ context.Context, _, from, to int64, yield func(*chain.Record) error) error {
	for i := min(to, int64(len(s.records))) - 1; i >= max(from, 0); i-- {
		if err := s.lend(i, yield); err != nil {
			return err
		}
	}
	return nil
}

func (s *memoryChain) lend(i int64, yield func(*chain.Record) error) error {
	if s.records[i].Index < 0 { // it is missing
		return nil
	}
	s.read = append(s.read, i)
	return yield(&s.records[i])
}

func (s *memoryChain) Summaries(_ context.Context, _, from, to int64, backward bool, yield func(int64, []byte) error) error {
	for n := range to - from {
		i := from + n
		if backward {
			i = to - 1 - n
		}
		if summary, ok := s.summaries[i]; ok {
			if err := yield(i, summary); err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	agents     = []string{"a", "b", `c"`, strings.Repeat("long", 64), "ä"}
	actions    = []string{"tool.read", "tool.write", "tool", strings.Repeat("y", 32), strings.Repeat("y", 33), strings.Repeat("y", 24) + "one-of-many", strings.Repeat("y", 24) + "two-of-many"}
	principals = []string{"spiffe://d/p1", "spiffe://d/p2", "spiffe://d/p3", "spiffe://d/p4"}
	payloads   = []string{`1`, `"Needle"`, `{"needle":1}`, `["\u006eEEDLE"]`, `{"a":"\"needle"}`, `"x"`}
	policies   = []string{"all", "no-force#0", "no-force#1", "no-forced", "a", "b", "c", "d", "e", "f", "g"}
)

// decidedOf returns a payload object with a decision.
func decidedOf(object []byte, verdict string, by ...string) []byte {
	text, err := (&decision.Decision{Verdict: verdict, By: by, Policies: strings.Repeat("0", 64)}).Append(nil)
	if err != nil {
		panic(err)
	}
	return fmt.Appendf(nil, `%s,"decision":%s}`, object[:len(object)-1], text)
}

// mixedChain returns n records of all kinds. Every third range has no summary.
func mixedChain(random *rand.Rand, n int) *memoryChain {
	s := &memoryChain{summaries: map[int64][]byte{}}
	few := random.IntN(2) == 0 // then many ranges have nothing of what is looked for
	for i := range n {
		agent, action := agents[random.IntN(len(agents))], actions[random.IntN(len(actions))]
		if few {
			agent, action = agents[i/700%len(agents)], actions[i/900%len(actions)]
		}
		r := chain.Record{Index: int64(i), Hash: hashAt(i), Payload: payloadOf(agent, action, payloads[random.IntN(len(payloads))])}
		if i/500%2 == 0 && random.IntN(3) == 0 {
			by := slices.DeleteFunc(slices.Clone(policies), func(string) bool { return random.IntN(8) > 2 })
			r.Payload = decidedOf(r.Payload, []string{"allow", "deny", "ask"}[random.IntN(3)], by...)
		}
		if random.IntN(3) == 0 {
			powers := principals[:1+random.IntN(len(principals))]
			text, _ := json.Marshal(map[string]any{"act": nil, "delegationChain": powers, "subject": powers[0], "tokenId": "t"})
			r.Delegation = text
		}
		s.records = append(s.records, r)
	}
	b := search.NewBuilder()
	ready, leftOut := b.Add(1, s.records)
	if leftOut {
		panic("a range was left out")
	}
	for _, r := range ready {
		if r.Index%3 != 2 {
			s.summaries[r.Index] = r.Terms
		}
	}
	return s
}

// hashAt returns the hash of record i in a mixedChain.
func hashAt(i int) chain.Hash { return chain.Hash{byte(i >> 8), byte(i)} }

func payloadOf(agent, action, payload string) []byte {
	a, _ := json.Marshal(agent)
	b, _ := json.Marshal(action)
	return fmt.Appendf(nil, `{"agentId":%s,"companyId":"acme","actionType":%s,"payload":%s}`, a, b, payload)
}

func filterOf(random *rand.Rand) (f search.Filter) {
	pick := func(list ...string) string {
		if random.IntN(2) == 0 {
			return ""
		}
		return list[random.IntN(len(list))]
	}
	f.Agent = pick(append([]string{"nobody"}, agents...)...)
	f.Action = pick(append([]string{"*", "tool*", "tool.*", "none", strings.Repeat("y", 24) + "*", strings.Repeat("y", 24) + "o*", strings.Repeat("y", 40)}, actions...)...)
	f.DelegatedBy = pick(append([]string{"*", "spiffe://d/nobody"}, principals...)...)
	if random.IntN(4) == 0 {
		f.Text = "nEEdle"
	}
	if random.IntN(3) == 0 {
		f.Decision, f.Policy = pick("allow", "deny", "ask"), pick("all", "no-force", "no-forced", "nobody", "g")
	}
	f.OrRefused = random.IntN(4) == 0
	if random.IntN(8) == 0 {
		hash := hashAt(random.IntN(6000))
		f = search.Filter{Agent: pick(f.Agent), Hash: string(hash[:])}
	}
	return f
}

// A scan returns exactly the records that match one by one, in both orders and after interruptions.
// Count returns their number.
func TestScan(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 0))
		s := mixedChain(random, 1+random.IntN(6000))
		for range 10 {
			f := filterOf(random)
			from := random.Int64N(int64(len(s.records) + 1))
			to := from + random.Int64N(int64(len(s.records))-from+1)
			var want []int64
			for i := from; i < to; i++ {
				if match, err := f.Matches(&s.records[i]); err != nil {
					t.Fatal(err)
				} else if match {
					want = append(want, i)
				}
			}
			middle := from + (to-from)/2
			counts, err := search.Count(t.Context(), s, 1, f, []int64{from, middle, middle, to})
			below := int64(len(slices.DeleteFunc(slices.Clone(want), func(i int64) bool { return i >= middle })))
			if err != nil || counts[0] != below || counts[1] != 0 || counts[0]+counts[2] != int64(len(want)) {
				t.Errorf("%+v: counts %v, %v, want %d of %d", f, counts, err, below, len(want))
			}
			for _, backward := range []bool{false, true} {
				scan := search.NewScan(s, 1, f, from, to, backward)
				var got []int64
				for steps := 0; !scan.Done(); steps++ {
					room := random.IntN(300)
					if err := scan.Step(t.Context(), func(r *chain.Record) bool {
						if room--; room < 0 {
							return false
						}
						got = append(got, r.Index)
						return true
					}); err != nil {
						t.Fatal(err)
					}
					if random.IntN(5) == 0 { // as if it went on in another answer
						scan = search.NewScan(s, 1, f, scan.From, scan.To, backward)
					}
					if steps > 100_000 {
						t.Fatalf("%+v: the scan does not end: [%d, %d)", f, scan.From, scan.To)
					}
				}
				if backward {
					slices.Reverse(got)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d, %+v, [%d, %d), backward %v: %d records, want %d", seed, f, from, to, backward, len(got), len(want))
				}
			}
		}
	}
}

// A scan for two common terms that never occur together reads no record that has a summary.
func TestScanReadsOnlyCandidateRanges(t *testing.T) {
	s := &memoryChain{summaries: map[int64][]byte{}}
	for i := range 20 * search.Width {
		s.records = append(s.records, chain.Record{Index: int64(i), Payload: payloadOf([]string{"a", "b"}[i%2], []string{"x", "y"}[i%2], `1`)})
	}
	ready, _ := search.NewBuilder().Add(1, s.records)
	for _, r := range ready {
		s.summaries[r.Index] = r.Terms
	}
	for _, backward := range []bool{false, true} {
		for scan := search.NewScan(s, 1, search.Filter{Agent: "a", Action: "y"}, 0, int64(len(s.records)), backward); !scan.Done(); {
			if err := scan.Step(t.Context(), func(*chain.Record) bool { t.Error("found"); return true }); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(s.read) > 0 {
		t.Errorf("%d records were read", len(s.read))
	}
}

// A malformed summary is treated as missing and hides no records.
func TestDamagedSummaryIsIgnored(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	s := mixedChain(random, 3000)
	f := search.Filter{Agent: "a"}
	whole, err := search.Count(t.Context(), s, 1, f, []int64{0, 3000})
	if err != nil {
		t.Fatal(err)
	}
	for index, summary := range s.summaries {
		s.summaries[index] = [][]byte{nil, {}, summary[:len(summary)-1], append(bytes.Clone(summary), 0), {2}, append([]byte{9}, summary[1:]...)}[index%6]
	}
	if got, err := search.Count(t.Context(), s, 1, f, []int64{0, 3000}); err != nil || got[0] != whole[0] {
		t.Errorf("%d, %v, want %d", got, err, whole)
	}
}

// A scan stops before a missing or malformed record.
func TestScanStopsAtDamagedRecord(t *testing.T) {
	for does, damage := range map[string]func(*chain.Record){
		"missing":  func(r *chain.Record) { r.Index = -1 },
		"no JSON":  func(r *chain.Record) { r.Payload = []byte(`{`) },
		"no agent": func(r *chain.Record) { r.Payload = []byte(`{"actionType":"x","payload":1}`) },
		"a bad string": func(r *chain.Record) {
			r.Payload = []byte(`{"agentId":"a\q","companyId":"","actionType":"","payload":1}`)
		},
		"an open string":       func(r *chain.Record) { r.Payload = payloadOf("a", "x", `"needle`) },
		"a delegation of none": func(r *chain.Record) { r.Delegation = []byte(`[]`) },
	} {
		s := mixedChain(rand.New(rand.NewPCG(1, 1)), 100)
		damage(&s.records[50])
		for _, backward := range []bool{false, true} {
			scan := search.NewScan(s, 1, search.Filter{Text: "needle"}, 0, 100, backward)
			var err error
			for err == nil && !scan.Done() {
				err = scan.Step(t.Context(), func(r *chain.Record) bool { return true })
			}
			var found *search.DamageError
			if !errors.As(err, &found) || found.Index != 50 || !backward && scan.From != 50 || backward && scan.To != 51 {
				t.Errorf("%s, backward %v: %v at [%d, %d)", does, backward, err, scan.From, scan.To)
			}
		}
	}
}

// However the pruned records of a chain are searched, those found are the ones that a slow reader
// finds who passes over them, nothing is damaged, and the number passed over is that of the
// candidates.
func TestPrunedRecords(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 291))
		s := mixedChain(random, 1+random.IntN(2500))
		pruned := random.IntN(len(s.records) + 1)
		for i := range pruned {
			s.records[i].Payload = nil
		}
		without := &memoryChain{records: s.records, summaries: map[int64][]byte{}}
		for _, f := range []search.Filter{
			{}, {Agent: "a"}, {Action: "tool*"}, {Text: "needle"}, {DelegatedBy: "*"}, {DelegatedBy: "*", Agent: "b"},
			{Hash: string(s.records[0].Hash[:])},
		} {
			var want []int64
			for i := range s.records {
				if is, err := f.Matches(&s.records[i]); err != nil {
					t.Fatal(err)
				} else if is {
					want = append(want, int64(i))
				}
			}
			for _, backward := range []bool{false, true} {
				for _, reader := range []*memoryChain{s, without} {
					scan := search.NewScan(reader, 1, f, 0, int64(len(s.records)), backward)
					var got []int64
					for !scan.Done() {
						if err := scan.Step(t.Context(), func(r *chain.Record) bool { got = append(got, r.Index); return true }); err != nil {
							t.Fatalf("seed %d, %+v: %v", seed, f, err)
						}
					}
					if slices.Sort(got); !slices.Equal(got, want) {
						t.Fatalf("seed %d, %+v: %v, want %v", seed, f, got, want)
					}
					switch most := int64(pruned); {
					case !f.NeedsPayload() && scan.Pruned > 0, scan.Pruned > most, reader == without && f.NeedsPayload() && scan.Pruned != most:
						t.Fatalf("seed %d, %+v: passed over %d of %d", seed, f, scan.Pruned, most)
					}
				}
			}
		}
		for _, reader := range []*memoryChain{s, without} {
			top, _, err := search.CountAgents(t.Context(), reader, 1, []int64{0, int64(len(s.records))}, 8)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range top {
				n, err := search.Count(t.Context(), reader, 1, search.Filter{Agent: a.Agent}, []int64{0, int64(len(s.records))})
				if err != nil || a.Agent == "" || n[0] != a.Total {
					t.Fatalf("seed %d: %q has %d, counted %v (%v)", seed, a.Agent, a.Total, n, err)
				}
			}
			actions, _, err := search.CountActions(t.Context(), reader, 1, 0, int64(len(s.records)), 8)
			if err != nil || slices.ContainsFunc(actions, func(a search.ActionCount) bool { return a.Action == "" }) {
				t.Fatalf("seed %d: %v, %v", seed, actions, err)
			}
		}
		if pruned > 0 {
			if summary, err := search.Summarize(t.Context(), s, 1, 0); err != nil && len(s.records) >= search.Width || summary != nil {
				t.Fatalf("a summary of pruned records: %d bytes, %v", len(summary), err)
			}
		}
	}
}
