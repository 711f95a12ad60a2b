package evidence_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/internal/must"
)

// report is that of a company with two rotations, from its third action and fourth control record
// on. The witness has cosigned both ends.
func report(t testing.TB) []byte {
	c := newCompany(t)
	c.change("company.registered", "company:acme", nil)
	c.change("agent.registered", "agent:build-bot", nil)
	c.add(0, agentID, "deploy", `{"version":1}`, "")
	c.add(0, agentID, "deploy", `{"version":2}`, "")
	c.rotateFormerly()
	var start [2]tlog.Frontier
	for i, l := range c.logs {
		start[i], _ = tlog.Frontier{}.Append(l.leaves...)
	}
	from := c.now.Add(1)
	c.add(0, agentID, "deploy", `{ "version": 3.0 }`, `{"act":null,"delegationChain":["spiffe://attestd.local/company/acme"],"subject":"spiffe://attestd.local/company/acme","tokenId":"t"}`)
	c.change("passport.issued", "passport:"+jti, map[string]any{"jti": jti, "agentId": agentID})
	c.rotateFormerly()
	c.add(0, "other", "pay", `{"version":4}`, "")
	return c.report(from, start, witnessA)
}

// report is that of the records from a time on, before which the logs had these trees.
func (c *company) report(from time.Time, start [2]tlog.Frontier, witnesses ...byte) []byte {
	c.t.Helper()
	r := evidence.Report{From: from.Truncate(1e6).Format("2006-01-02T15:04:05.000Z"), To: c.now.Add(1e9).Format("2006-01-02T15:04:05.000Z"), File: c.file(0, 0, c.checkpoint(0))}
	for _, w := range witnesses {
		r.File.Witnesses = append(r.File.Witnesses, witnessKey(w))
	}
	r.File.Policies = c.policies
	var lines [][]byte
	for i, l := range c.logs {
		signed, err := tlog.Checkpoint{Origin: l.Origin, Tree: start[i].Tree()}.Sign(c.key())
		must.OK(c.t, err)
		r.Periods[i] = evidence.Period{Start: string(signed), Frontier: start[i], End: string(c.checkpoint(i, witnesses...))}
	}
	lines = append(lines, r.Header())
	for _, i := range []int{1, 0} {
		for j := range c.logs[i].records[start[i].Size:] {
			lines = append(lines, evidence.AppendLine(nil, c.logs[i].Name, &c.logs[i].records[start[i].Size+int64(j)]))
		}
	}
	return append(bytes.Join(lines, []byte("\n")), '\n')
}

func checkReport(text []byte, trust evidence.Trust) (v evidence.Verdict, events []evidence.Event) {
	v = evidence.CheckReport(bytes.NewReader(text), trust, func(*evidence.Report) {}, func(e *evidence.Event) { events = append(events, *e) })
	return v, events
}

// A report holds with each key of the company and with a policy, and says what was done and
// changed.
func TestReport(t *testing.T) {
	t.Parallel()
	text := testdata(t, "report.jsonl", report(t))
	v, events := checkReport(text, evidence.Trust{Policy: policy(t, "one")})
	if v.Outcome != evidence.Holds || len(v.NotProven) != 6 {
		t.Errorf("%+v", v)
	}
	var actions []string
	for _, e := range events {
		actions = append(actions, e.Action+" "+e.AgentID+e.Subject)
	}
	want := []string{"passport.issued servicepassport:" + jti, "signing-key.rotated servicesigning-key:" + kid(2), "deploy build-bot", "pay other"}
	if !slices.Equal(actions, want) || len(events[2].Delegated) != 1 || events[0].By == "" {
		t.Errorf("%q", actions)
	}
	for n := range byte(3) {
		if v, _ := checkReport(text, evidence.Trust{Fingerprint: fingerprint(n)}); v.Outcome != evidence.Holds {
			t.Errorf("key %d: %+v", n, v)
		}
	}
	if v, _ := checkReport(text, evidence.Trust{Fingerprint: fingerprint(9)}); v.Code != evidence.KeyUntrusted {
		t.Errorf("another key: %+v", v)
	}
	if v, _ := checkReport(text, evidence.Trust{}); v.Outcome != evidence.SelfConsistent {
		t.Errorf("no key: %+v", v)
	}
}

// No record can be left out, added, changed, moved or doubled, and nothing in the header can be
// changed.
func TestReportMutations(t *testing.T) {
	t.Parallel()
	text := report(t)
	refused := func(how string, changed []byte) {
		t.Helper()
		if v, _ := checkReport(changed, evidence.Trust{}); v.Outcome != evidence.Fails || v.Code == "" {
			t.Errorf("%s: %+v", how, v)
		}
	}
	refused("junk behind the last record", append(bytes.Clone(text), bytes.Repeat([]byte{'x'}, 65<<20)...))
	refused("white space behind the last record", append(bytes.Clone(text), bytes.Repeat([]byte{' '}, 65<<20)...))
	refused("two sentences in one", bytes.Replace(text, []byte(`ends.","That what payloads`), []byte(`ends. That what payloads`), 1))
	lines := strings.SplitAfter(string(text), "\n")
	lines = lines[:len(lines)-1]
	for i := range lines {
		refused("a line left out", []byte(strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "")))
		refused("a line twice", []byte(strings.Join(slices.Insert(slices.Clone(lines), i, lines[i]), "")))
		if i > 0 {
			swapped := slices.Clone(lines)
			swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
			refused("lines swapped", []byte(strings.Join(swapped, "")))
		}
		// but for the bounds of the period, which may be wider than its records, and white space
		for at := range len(lines[i]) - 1 {
			before, changed := lines[i][max(0, at-40):at+1], []byte(lines[i])
			if changed[at] ^= 1; !sampled(lines[i], at) || changed[at] >= 0x80 || changed[at] <= ' ' || lines[i][at] == ' ' || strings.Contains(before, `"from":"`) || strings.Contains(before, `"to":"`) {
				continue
			}
			refused("byte "+lines[i][max(0, at-10):at+1], []byte(strings.Join(lines[:i], "")+string(changed)+strings.Join(lines[i+1:], "")))
		}
	}
}

// A record takes one line of a report, also where its payload was sent with line feeds between its
// tokens: the rest of it stays as it is.
func TestReportLineOfAPayloadOfMoreLines(t *testing.T) {
	t.Parallel()
	r := chain.Record{Timestamp: "2026-03-02T09:05:04.218Z", Payload: []byte("{\r\n \"text\": \"a\\nb\",\n\"n\":1.0}")}
	line := evidence.AppendLine([]byte("before\n"), evidence.Actions, &r)
	if !bytes.HasPrefix(line, []byte("before\n{")) || bytes.Count(line, []byte("\n")) != 1 || !bytes.Contains(line, []byte(`{   "text": "a\nb", "n":1.0}`)) {
		t.Errorf("%q", line)
	}
}
