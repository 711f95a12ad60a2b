package evidence_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/internal/must"
)

func checkSession(text []byte, trust evidence.Trust) evidence.Verdict {
	return evidence.CheckSession(bytes.NewReader(text), trust)
}

// A session's file says what is there and what is not, whatever is pinned.
func TestSessions(t *testing.T) {
	t.Parallel()
	first, _, _, other := pins(t)
	fourth := agentKey(t, jose.ES256, 4).key.Thumbprint
	for name, text := range sessions(t) {
		testdata(t, name+".jsonl", text)
		want := map[string]string{
			"session-complete": `{"agentId":"build-bot","kid":"` + first + `","sid":"sealed","records":4,"first":0,"last":3,"state":"complete","missing":[],"refused":0}`,
			"session-one":      `{"agentId":"build-bot","kid":"` + first + `","sid":"sealed-2","records":1,"first":0,"last":0,"state":"complete","missing":[],"refused":0}`,
			"session-open":     `{"agentId":"build-bot","kid":"` + fourth + `","sid":"open","records":6,"first":0,"last":5,"state":"open","missing":[],"refused":0}`,
			"session-missing":  `{"agentId":"build-bot","kid":"` + fourth + `","sid":"open","records":3,"first":1,"last":4,"state":"missing","missing":[[0,0],[2,2]],"refused":0}`,
		}[name]
		words := map[string]string{
			"session-complete": "complete: 0 to 3, sealed", "session-one": "complete: 0 to 0, sealed", "session-open": "open at 5",
			"session-missing": "missing 0, 2, open at 4",
		}[name]
		for trust, outcome := range map[evidence.Trust]evidence.Outcome{
			{}:                            evidence.SelfConsistent,
			{AgentKey: first}:             evidence.SelfConsistent,
			{Fingerprint: fingerprint(0)}: evidence.Holds,
			{Fingerprint: fingerprint(0), AgentKey: first}: evidence.Holds,
			{Policy: policySecond(t)}:                      evidence.Holds,
		} {
			v := checkSession(text, trust)
			got, err := json.Marshal(v.Session)
			must.OK(t, err)
			if v.Outcome != outcome || string(got) != want || v.Statement == nil || v.Statement.Pinned != (trust.AgentKey != "") || len(v.NotProven) != 10 ||
				!strings.Contains(strings.Join(v.Checked, "\n"), " records, "+words+"\n") {
				t.Errorf("%s: %+v: %s, want %s", name, v, got, want)
			}
		}
		for trust, code := range map[evidence.Trust]evidence.Code{
			{Fingerprint: fingerprint(9)}:                  evidence.KeyUntrusted,
			{Fingerprint: fingerprint(0), AgentKey: other}: evidence.BadStatement,
			{Policy: policy(t, "one")}:                     evidence.PolicyUnmet,
		} {
			if v := checkSession(text, trust); v.Code != code || v.Session != nil {
				t.Errorf("%s: %+v, want %s", name, v, code)
			}
		}
		if !evidence.IsSession(evidence.Reader(bytes.NewReader(text))) {
			t.Errorf("%s is no session", name)
		}
	}
	if evidence.IsSession(evidence.Reader(bytes.NewReader(signed(t).JSON()))) || evidence.IsSession(evidence.Reader(strings.NewReader(""))) {
		t.Error("evidence of one record is a session")
	}
}

// policySecond takes what the second key signs and one witness has cosigned.
func policySecond(t testing.TB) *tlog.Policy {
	t.Helper()
	l := newCompany(nil).logs[0]
	p, err := tlog.ParsePolicy([]byte("log " + tlog.VKey{Name: l.Origin, Type: tlog.TypeEd25519, Public: public(1)}.String() + "\nwitness a " + witnessKey(witnessA) + "\nquorum a\n"))
	must.OK(t, err)
	return p
}

// No line can be changed, doubled or exchanged. Where one is left out and the header says so, the
// verdict says that it is missing.
func TestSessionMutations(t *testing.T) {
	t.Parallel()
	for name, text := range sessions(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused := func(how string, changed []byte) {
				t.Helper()
				if v := checkSession(changed, evidence.Trust{}); v.Outcome != evidence.Fails || v.Code == "" || v.Session != nil {
					t.Errorf("%s: %+v", how, v)
				}
			}
			lines := strings.SplitAfter(string(text), "\n")
			lines = lines[:len(lines)-1]
			refused("without its last line feed", text[:len(text)-1])
			refused("with an empty line", append(bytes.Clone(text), '\n'))
			refused("with a space", append(bytes.Clone(text), ' '))
			refused("with junk", append(bytes.Clone(text), bytes.Repeat([]byte{'x'}, 9<<20)...))
			refused("empty", nil)
			for i := range lines {
				refused("a line left out", []byte(strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "")))
				refused("a line twice", []byte(strings.Join(slices.Insert(slices.Clone(lines), i, lines[i]), "")))
				if i > 0 {
					swapped := slices.Clone(lines)
					swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
					refused("lines swapped", []byte(strings.Join(swapped, "")))
				}
				for at := range len(lines[i]) - 1 {
					changed := []byte(lines[i])
					if changed[at] ^= 1; !sampled(lines[i], at) || changed[at] >= 0x80 || changed[at] <= ' ' || lines[i][at] == ' ' {
						continue
					}
					refused("byte "+lines[i][max(0, at-10):at+1], []byte(strings.Join(lines[:i], "")+string(changed)+strings.Join(lines[i+1:], "")))
				}
			}
		})
	}
}

// A record that the operator takes out of a sealed session is missing, also where he signs a new
// history without it. So is every further one.
func TestRecordTakenOutOfSealedSessionIsMissing(t *testing.T) {
	t.Parallel()
	const count = 7
	key := agentKey(t, jose.EdDSA, 1)
	genuine := newCompany(t)
	genuine.enrol(agentID, key.Key(), nil)
	compact := genuine.states(key, "run-1", count, true)
	for out := range count {
		forged := newCompany(t)
		kid := forged.enrol(agentID, key.Key(), nil)
		var indexes []int64
		for i, s := range compact {
			if i != out {
				indexes = append(indexes, int64(len(forged.logs[0].records)))
				forged.addStated(agentID, "step", fmt.Sprintf(`{"n":%d}`, i), s, "")
			} else {
				forged.now = forged.now.Add(1e9)
			}
		}
		v := checkSession(forged.session(kid, "run-1", []string{kid}, indexes...), evidence.Trust{Fingerprint: fingerprint(0), AgentKey: kid})
		want, state := [][2]int64{{int64(out), int64(out)}}, evidence.Missing
		if out == count-1 { // the end: then the session is open, as far as anybody knows
			want, state = [][2]int64{}, evidence.Open
		}
		if v.Outcome != evidence.Holds || v.Session.State != state || !slices.Equal(v.Session.Missing, want) {
			t.Errorf("without %d: %+v %+v", out, v, v.Session)
		}
	}
}

// What the agent itself did not sign as one session fails.
func TestContradictorySessions(t *testing.T) {
	t.Parallel()
	key, second := agentKey(t, jose.EdDSA, 1), agentKey(t, jose.EdDSA, 2)
	place := func(sid string, seq int64, prev string, end bool) func(*statement.Claims) {
		return func(c *statement.Claims) { c.Session, c.Seq, c.Previous, c.End = sid, seq, prev, end }
	}
	for name, test := range map[string]struct {
		write func(c *company)
		want  string // of the reason
	}{
		"two of one place": {func(c *company) {
			s := c.stated(key, agentID, "step", `1`, place("run", 0, "", false))
			c.stated(key, agentID, "step", `2`, place("run", 1, s.Hash(), false))
			c.stated(key, agentID, "step", `3`, place("run", 1, s.Hash(), false))
		}, "two statements with the seq 1: this one, and that of record 1"},
		"another statement before": {func(c *company) {
			c.stated(key, agentID, "step", `1`, place("run", 0, "", false))
			c.stated(key, agentID, "step", `2`, place("run", 1, strings.Repeat("00", 32), false))
		}, "prev is not the hash of the statement in record 0"},
		"more after the end": {func(c *company) {
			s := c.stated(key, agentID, "step", `1`, place("run", 0, "", true))
			c.stated(key, agentID, "step", `2`, place("run", 1, s.Hash(), false))
		}, "follows the end of the session"},
		"more after the end and a gap": {func(c *company) {
			c.stated(key, agentID, "step", `1`, place("run", 0, "", true))
			c.stated(key, agentID, "step", `2`, place("run", 9, strings.Repeat("00", 32), true))
		}, "follows the end of the session"},
		"out of order": {func(c *company) {
			c.stated(key, agentID, "step", `1`, place("run", 3, strings.Repeat("00", 32), false))
			c.stated(key, agentID, "step", `2`, place("run", 2, strings.Repeat("00", 32), false))
		}, "its seq 2 stands after 3"},
		"another session": {func(c *company) { c.stated(key, agentID, "step", `1`, place("other", 0, "", false)) }, `of the session "other"`},
		"no session":      {func(c *company) { c.stated(key, agentID, "step", `1`, nil) }, `of the session ""`},
		"no statement":    {func(c *company) { c.add(0, agentID, "step", `1`, "") }, "it has no statement"},
		"another key":     {func(c *company) { c.stated(second, agentID, "step", `1`, place("run", 0, "", false)) }, "signature"},
		"another agent":   {func(c *company) { c.stated(key, "other", "step", `1`, place("run", 0, "", false)) }, `of the agent "other"`},
		"a delegation more": {func(c *company) {
			c.addStated(agentID, "step", `1`, c.state(key, agentID, "step", `1`, place("run", 0, "", false)).Compact, delegated)
		}, "delegation"},
		"another trust domain later": {func(c *company) {
			s := c.stated(key, agentID, "step", `1`, place("run", 0, "", false))
			c.stated(key, agentID, "step", `1`, func(claims *statement.Claims) {
				place("run", 1, s.Hash(), false)(claims)
				claims.Audience = "spiffe://other/company/acme"
				claims.Issuer = claims.Audience + "/agent/" + agentID
			})
		}, "another trust domain"},
	} {
		c := newCompany(t)
		kid := c.enrol(agentID, key.Key(), nil)
		test.write(c)
		var indexes []int64
		for i := range c.logs[0].records {
			indexes = append(indexes, int64(i))
		}
		v := checkSession(c.session(kid, "run", []string{kid}, indexes...), evidence.Trust{Fingerprint: fingerprint(0)})
		if v.Code != evidence.BadStatement || !strings.Contains(v.Reason, test.want) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// Of more than a hundred gaps the first hundred are named.
func TestManyGapsOfSession(t *testing.T) {
	t.Parallel()
	c, key := newCompany(t), agentKey(t, jose.EdDSA, 1)
	kid := c.enrol(agentID, key.Key(), nil)
	var indexes []int64
	for i := range int64(120) {
		c.stated(key, agentID, "step", `1`, func(claims *statement.Claims) {
			claims.Session, claims.Seq, claims.Previous = "run", 10*i+5, strings.Repeat("00", 32)
		})
		indexes = append(indexes, i)
	}
	v := checkSession(c.session(kid, "run", []string{kid}, indexes...), evidence.Trust{})
	if v.Session == nil || len(v.Session.Missing) != 100 || v.Session.Missing[99] != [2]int64{986, 994} || v.Session.Last != 1195 ||
		!strings.Contains(strings.Join(v.Checked, "\n"), "986–994 and 20 ranges more, open at 1195\n") {
		t.Errorf("%+v %+v", v, v.Session)
	}
}

// A writer refuses what the header does not say, and payloads of more lines take one.
func TestSessionWriter(t *testing.T) {
	t.Parallel()
	c, key := newCompany(t), agentKey(t, jose.EdDSA, 1)
	kid := c.enrol(agentID, key.Key(), nil)
	c.stated(key, agentID, "step", "{\n \"n\":\r\n 1}", func(claims *statement.Claims) { claims.Session, claims.End = "run", true })
	text := c.session(kid, "run", []string{kid}, 0)
	if v := checkSession(text, evidence.Trust{Fingerprint: fingerprint(0), AgentKey: kid}); v.Outcome != evidence.Holds || v.Session.State != evidence.Complete {
		t.Errorf("%+v", v)
	}
	f := c.file(0, 0, c.checkpoint(0))
	f.AgentKey = new(evidence.AgentKey)
	w, err := evidence.NewSessionWriter(io.Discard, &evidence.SessionFile{AgentID: agentID, KeyID: kid, ID: "run", Records: 1, File: f})
	must.OK(t, err)
	if w.Close() == nil {
		t.Error("a session without its record is written")
	}
	must.OK(t, w.Write(&c.logs[0].records[0], nil))
	must.OK(t, w.Close())
	if w.Write(&c.logs[0].records[0], nil) == nil {
		t.Error("a session with a record more is written")
	}
}

// The check of a session holds one line at a time.
func TestSessionMemory(t *testing.T) {
	c := newCompany(t)
	key := agentKey(t, jose.EdDSA, 1)
	kid := c.enrol(agentID, key.Key(), nil)
	c.states(key, "run-1", 400, true)
	var indexes []int64
	for i := range c.logs[0].records {
		indexes = append(indexes, int64(i))
	}
	used := func(text []byte) uint64 {
		var most, before runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		count := 0
		peak := uint64(0)
		src := readFunc(func(p []byte) (int, error) {
			if len(text) == 0 {
				return 0, io.EOF
			}
			if count++; count%4 == 0 {
				runtime.GC()
				runtime.ReadMemStats(&most)
				peak = max(peak, most.HeapAlloc)
			}
			n := copy(p, text)
			text = text[n:]
			return n, nil
		})
		if v := evidence.CheckSession(src, evidence.Trust{}); v.Outcome != evidence.SelfConsistent {
			t.Fatalf("%+v", v)
		}
		return peak - min(peak, before.HeapAlloc)
	}
	if long := used(c.session(kid, "run-1", []string{kid}, indexes...)); long > 2<<20 {
		t.Errorf("%d bytes", long)
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// FuzzSession feeds whatever to the reader of sessions: it never panics, and with the agent's key
// pinned it accepts no session but those of the samples, or parts of them.
func FuzzSession(f *testing.F) {
	first, _, _, _ := pins(f)
	genuine := make(map[string]bool)
	for _, text := range sessions(f) {
		f.Add(text)
		for _, line := range bytes.Split(text, []byte("\n"))[1:] {
			genuine[hashOf(line)] = true
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v := checkSession(text, evidence.Trust{Fingerprint: fingerprint(0), AgentKey: first})
		if (v.Outcome == evidence.Fails) != (v.Code != "") || (v.Session == nil) != (v.Code != "") {
			t.Fatalf("%q: %+v", text, v)
		}
		if v.Code != "" {
			return
		}
		for _, line := range bytes.Split(text, []byte("\n"))[1:] {
			if !genuine[hashOf(line)] {
				t.Fatalf("%q: %+v", text, v)
			}
		}
	})
}

// hashOf is the hash that a record on a line names.
func hashOf(line []byte) string {
	var l struct{ Record struct{ Hash string } }
	_ = json.Unmarshal(line, &l)
	return l.Record.Hash
}

// disobedient is the file of a sealed session with calls of these kinds, as call=actions: the
// agent's key has signed each record.
func disobedient(t testing.TB, calls ...[2]string) []byte {
	c := newCompany(t)
	key := agentKey(t, jose.EdDSA, 1)
	kid := c.enrol(agentID, key.Key(), nil)
	c.add(0, "other", "deploy", `{"version":1}`, "")
	previous := ""
	var indexes []int64
	for i, call := range calls {
		s := c.stated(key, agentID, call[1], fmt.Sprintf(`{"source":"claude-code","tool":"Bash","callId":%q,"sessionId":"run-1"}`, call[0]),
			func(claims *statement.Claims) {
				claims.Session, claims.Seq, claims.Previous, claims.End = "run-1", int64(i), previous, i == len(calls)-1
			})
		previous = s.Hash()
		indexes = append(indexes, int64(i+1))
	}
	return c.session(kid, "run-1", []string{kid}, indexes...)
}

// A session in which a refusal was not obeyed holds, and says so before everything else: each of
// its records is genuine.
func TestSessionThatDisobeyed(t *testing.T) {
	t.Parallel()
	trust := evidence.Trust{Fingerprint: fingerprint(0)}
	obeyed := [][2]string{{"a", "tool.requested"}, {"a", "tool.denied"}, {"b", "tool.requested"}, {"b", "tool.completed"}}
	if v := checkSession(disobedient(t, obeyed...), trust); v.Outcome != evidence.Holds || v.Session.State != evidence.Complete || v.Session.Completeness != "" {
		t.Errorf("%+v", v)
	}
	text := disobedient(t, append(obeyed, [2]string{"c", "tool.requested"}, [2]string{"c", "tool.denied"}, [2]string{"a", "tool.failed"}, [2]string{"c", "tool.completed"})...)
	v := checkSession(text, trust)
	got, err := json.Marshal(v.Session)
	must.OK(t, err)
	want := `"state":"disobeyed","missing":[],"refused":0,"completeness":"complete","disobeyed":[{"refused":2,"done":7,"tool":"Bash"},{"refused":6,"done":8,"tool":"Bash"}]}`
	if v.Outcome != evidence.Holds || !strings.HasSuffix(string(got), want) {
		t.Errorf("%s: %s, want %s", v.Outcome, got, want)
	}
	const answer = "8 records, disobeyed: refused at record 2, done at record 7; refused at record 6, done at record 8; complete: 0 to 7, sealed"
	if !slices.ContainsFunc(v.Checked, func(s string) bool { return strings.HasSuffix(s, answer) }) {
		t.Errorf("checked: %q", v.Checked)
	}
	if v := checkSession(text[:len(text)-1], trust); v.Outcome != evidence.Fails || v.Session != nil {
		t.Errorf("a file that fails: %+v", v)
	}
}

// A report says which calls disobeyed, those without a session too, and at most a hundred.
func TestReportOfCallsThatDisobeyed(t *testing.T) {
	t.Parallel()
	report := func(calls int) evidence.Verdict {
		c := newCompany(t)
		c.change("company.registered", "company:acme", nil)
		call := func(n int, action string) {
			c.add(0, agentID, action, fmt.Sprintf(`{"source":"mcp","callId":"%d"}`, n), "")
		}
		for n := range calls {
			call(n, "tool.requested")
			call(n, "tool.denied")
			call(n, "tool.ended")
		}
		call(-1, "tool.denied")
		r := evidence.Report{From: "2026-01-01T00:00:00.000Z", To: "2027-01-01T00:00:00.000Z", File: c.file(0, 0, c.checkpoint(0))}
		for i := range r.Periods {
			signed, err := tlog.Checkpoint{Origin: c.logs[i].Origin, Tree: tlog.Tree{Root: tlog.EmptyRoot()}}.Sign(c.key())
			must.OK(t, err)
			r.Periods[i] = evidence.Period{Start: string(signed), End: string(c.checkpoint(i))}
		}
		text := string(r.Header()) + "\n"
		for _, i := range []int{1, 0} {
			for j := range c.logs[i].records {
				text += string(evidence.AppendLine(nil, c.logs[i].Name, &c.logs[i].records[j])) + "\n"
			}
		}
		v, _ := checkReport([]byte(text), evidence.Trust{Fingerprint: fingerprint(0)})
		if v.Outcome != evidence.Holds {
			t.Fatalf("%+v", v)
		}
		return v
	}
	last := func(v evidence.Verdict) string { return v.Checked[len(v.Checked)-1] }
	if v := report(0); v.Disobeyed != nil || strings.Contains(last(v), "refused") {
		t.Errorf("%+v", v)
	}
	if v := report(1); len(v.Disobeyed) != 1 || last(v) != "a call that was refused ran all the same: refused at record 1, done at record 2" {
		t.Errorf("%+v", v)
	}
	v := report(101)
	if len(v.Disobeyed) != 100 || !strings.HasPrefix(last(v), "101 calls that were refused ran all the same: refused at record 1, done at record 2; ") ||
		!strings.HasSuffix(last(v), "; and 91 more") {
		t.Errorf("%d: %s", len(v.Disobeyed), last(v))
	}
}
