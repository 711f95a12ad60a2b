package search_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"attestd/chain"
	"attestd/chain/search"
)

// For records in any order and batches, Builder makes the same summaries as Summarize makes from
// stored records.
func TestBuilderEqualsSummarize(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	s := mixedChain(random, 2000)
	b := search.NewBuilder()
	var ready []search.Ready
	for next := 0; next < len(s.records); {
		end := min(next+1+random.IntN(600), len(s.records))
		done, leftOut := b.Add(1, s.records[next:end])
		if b.Confirm(nil); leftOut {
			t.Error("a range was omitted")
		}
		ready, next = append(ready, done...), end
	}
	if len(ready) != len(s.records)/search.Width {
		t.Fatalf("%d summaries", len(ready))
	}
	for i, r := range ready {
		want, err := search.Summarize(t.Context(), s, 1, int64(i))
		if err != nil || r.Index != int64(i) || !bytes.Equal(r.Terms, want) {
			t.Errorf("summary %d: %v", i, err)
		}
	}
}

// A Builder makes no summary of a range unless it saw every record of it. It misses records after
// a failed append, an append by another process, or a reset. Later ranges have summaries again.
func TestBuilderOmitsIncompleteRanges(t *testing.T) {
	s := mixedChain(rand.New(rand.NewPCG(4, 4)), 4*search.Width)
	for does, between := range map[string]func(b *search.Builder) (at int){
		"it begins in the middle":     func(*search.Builder) int { return 10 },
		"an addition is dropped":      func(b *search.Builder) int { b.Add(1, s.records[:20]); b.Drop(); return 20 },
		"an addition came too late":   func(b *search.Builder) int { b.Add(1, s.records[:20]); b.Confirm([]int64{1}); return 20 },
		"others have added":           func(b *search.Builder) int { b.Add(1, s.records[:20]); b.Confirm(nil); return 30 },
		"someone else has written":    func(b *search.Builder) int { b.Add(1, s.records[:20]); b.Confirm(nil); b.Clear(); return 20 },
		"a dropped addition is again": func(b *search.Builder) int { b.Add(1, s.records[:20]); b.Drop(); return 0 },
	} {
		b := search.NewBuilder()
		at := between(b)
		ready, leftOut := b.Add(1, s.records[at:])
		if want := at > 0; leftOut != want || want && len(ready) != 3 || !want && len(ready) != 4 {
			t.Errorf("%s: %d summaries, left out: %v", does, len(ready), leftOut)
		}
		for _, r := range ready {
			if want, err := search.Summarize(t.Context(), s, 1, r.Index); err != nil || !bytes.Equal(want, r.Terms) {
				t.Errorf("%s: summary %d differs", does, r.Index)
			}
		}
	}
}

// The size of a summary is bounded for all records.
func TestSummaryIsBounded(t *testing.T) {
	var s search.Summary
	for i := range search.Width {
		terms := search.Terms{Agent: fmt.Appendf(nil, "%0256d", i), Action: []byte(strings.Repeat("x", 200) + fmt.Sprint(i))}
		for p := range 10 {
			terms.Principals = append(terms.Principals, fmt.Appendf(nil, "spiffe://d/%0300d/%d", i, p))
		}
		terms.Verdict = []byte("deny")
		for p := range 8 + 100*(i%2) {
			terms.Policies = append(terms.Policies, fmt.Appendf(nil, "%060d-%d", i, p))
		}
		if !s.Add(&terms) {
			t.Fatal("refused")
		}
	}
	if n := len(s.Append(nil)); n > 59_000 {
		t.Errorf("%d bytes", n)
	}
	many := search.Terms{Principals: make([][]byte, 17)}
	if s.Add(&many) {
		t.Error("a record with 17 principals was accepted")
	}
}

// An attacker can find two names with equal hash prefixes. Neither of two such actions hides the
// other, nor do two such agents.
func TestHashCollisionHidesNoRecord(t *testing.T) {
	// SHA-256 of both begins with ec950d3087afa3a9
	const one, other = "repo.read/5f285c7f14fe4659", "repo.read/43a1824a1b7b8aca"
	s := &memoryChain{summaries: map[int64][]byte{}}
	for i := range search.Width {
		name := []string{one, other}[i%2]
		s.records = append(s.records, chain.Record{Index: int64(i), Payload: payloadOf(name, name, `1`)})
	}
	ready, _ := search.NewBuilder().Add(1, s.records)
	s.summaries[0] = ready[0].Terms
	for f, most := range map[search.Filter]int64{
		{Action: one}: 128, {Action: other}: 128, {Action: "repo.read/43*"}: 128, {Action: "repo.read/5*"}: 128, {Agent: one}: 256, {Agent: other}: 256,
	} {
		if counts, err := search.Count(t.Context(), s, 1, f, []int64{0, search.Width}); err != nil || counts[0] < 128 || counts[0] > most {
			t.Errorf("%+v: %v, %v, want 128 to %d", f, counts, err, most)
		}
	}
}

// FuzzMatchSummary: malformed summaries are refused without a panic. The zero Filter matches every
// record of a valid one.
func FuzzMatchSummary(f *testing.F) {
	s := mixedChain(rand.New(rand.NewPCG(5, 5)), 2*search.Width)
	for _, summary := range s.summaries {
		f.Add(summary, "a", "tool*", "*")
		f.Add(summary[:len(summary)/2], `c"`, strings.Repeat("y", 40)+"*", principals[1])
	}
	f.Add([]byte{1, 0}, "", "", "")
	f.Fuzz(func(t *testing.T, summary []byte, agent, action, by string) {
		var verdicts search.Verdicts
		filter := search.Filter{Agent: agent, Action: action, DelegatedBy: by, Decision: "deny", Policy: "all"}
		_, err := filter.MatchSummary(summary, &verdicts)
		some, errOfAll := new(search.Filter).MatchSummary(summary, &verdicts)
		if (err == nil) != (errOfAll == nil) {
			t.Fatalf("%v, but %v", err, errOfAll)
		}
		counted := &memoryChain{records: s.records, summaries: map[int64][]byte{0: summary}}
		if _, _, err := search.CountAgents(t.Context(), counted, 1, []int64{0, search.Width}, 3); err != nil && errOfAll != nil {
			t.Fatalf("a malformed summary is not ignored: %v", err)
		}
		if errOfAll == nil && (!some || bytes.IndexFunc([]byte{byte(verdicts[0]), byte(verdicts[search.Width-1])}, func(v rune) bool { return v != rune(search.Yes) }) >= 0) {
			t.Fatal("the zero filter refuses a record")
		}
	})
}

// A decision that more policies made than a summary lists is found by each of them.
func TestDecisionOfManyPolicies(t *testing.T) {
	s := &memoryChain{summaries: map[int64][]byte{}}
	for i := range search.Width {
		r := chain.Record{Index: int64(i), Payload: payloadOf("a", "tool.requested", `1`)}
		if i == 7 {
			var by []string
			for n := range 300 {
				by = append(by, fmt.Sprintf("policy-%d#%d", n%150, n))
			}
			r.Payload = decidedOf(r.Payload, "deny", by...)
		}
		s.records = append(s.records, r)
	}
	ready, _ := search.NewBuilder().Add(1, s.records)
	s.summaries[0] = ready[0].Terms
	for policy, want := range map[string]int64{"policy-0": 1, "policy-149": 1, "policy-150": 0, "policy-14": 1, "policy": 0} {
		counts, err := search.Count(t.Context(), s, 1, search.Filter{Policy: policy}, []int64{0, search.Width})
		if err != nil || counts[0] != want {
			t.Errorf("%s: %v, %v, want %d", policy, counts, err, want)
		}
	}
}

// FuzzSummary: for any two kinds of records in a range, the summary's verdict equals that of the
// record, or is Maybe.
func FuzzSummary(f *testing.F) {
	f.Add("a", "tool.read", "b", "tool.write", "a", "tool*", "*", "", "p")
	f.Add("a", strings.Repeat("y", 40), "a", strings.Repeat("y", 41), "", strings.Repeat("y", 39)+"*", "spiffe://d/p1", "deny", "")
	f.Fuzz(func(t *testing.T, agent1, action1, agent2, action2, agent, action, by, verdict, policy string) {
		var s search.Summary
		records := []chain.Record{
			{Payload: payloadOf(agent1, action1, "1")},
			{Payload: payloadOf(agent2, action2, "2"), Delegation: []byte(`{"act":null,"delegationChain":["spiffe://d/p1","spiffe://d/p2"],"subject":"spiffe://d/p1","tokenId":""}`)},
		}
		records[1].Payload = decidedOf(records[1].Payload, "deny", "p#0", "q")
		for i := range search.Width {
			var terms search.Terms
			if err := terms.Read(&records[i%2]); err != nil {
				t.Fatal(err)
			}
			s.Add(&terms)
		}
		for _, orRefused := range []bool{false, true} {
			filter := search.Filter{Agent: agent, Action: action, DelegatedBy: by, Decision: verdict, Policy: policy, OrRefused: orRefused}
			var verdicts search.Verdicts
			some, err := filter.MatchSummary(s.Append(nil), &verdicts)
			if err != nil {
				t.Fatal(err)
			}
			for i := range records {
				match, err := filter.Matches(&records[i])
				if err != nil {
					t.Fatal(err)
				}
				if v := verdicts[i]; match && !some || some && match && v == search.No || some && !match && v == search.Yes {
					t.Fatalf("%+v of %s: %v, summary says %d", filter, records[i].Payload, match, v)
				}
			}
		}
	})
}

func BenchmarkBuilder(b *testing.B) {
	s := mixedChain(rand.New(rand.NewPCG(6, 6)), 256)
	builder := search.NewBuilder()
	for i := 0; b.Loop(); i++ {
		r := s.records[i%256]
		r.Delegation = nil
		r.Index = int64(i)
		builder.Add(1, []chain.Record{r})
		builder.Confirm(nil)
	}
}
