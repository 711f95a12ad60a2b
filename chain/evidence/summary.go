package evidence

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"attestd/chain"
	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
	"attestd/internal/printable"
)

// MaxShown is how many characters of a payload, or of a delegation chain, a summary shows.
const MaxShown = 2000

// maxTypes is how many action types the summary of a session names.
const maxTypes = 10

// Line is a line of the summary of a file that does not fail: who did what, on whose behalf and
// under which right. All checkers print the same lines, so that people can compare them. Text comes
// from the file: names are JSON strings in it, and its reader MUST escape it like all other data.
type Line struct{ Name, Text string }

// summaryLines are the lines of a summary in their order.
type summaryLines []Line

func (l *summaryLines) add(name, format string, args ...any) {
	*l = append(*l, Line{name, fmt.Sprintf(format, args...)})
}

// Words returns the verdict as people read it: "holds", "holds, key not confirmed: why", or
// "fails: CODE: why".
func (v *Verdict) Words() string { return Words(v.Outcome, v.Code, v.Reason) }

// Words is Verdict.Words for an outcome with its code and reason.
func Words(o Outcome, code Code, reason string) string {
	switch o {
	case Holds:
		return "holds"
	case SelfConsistent:
		return "holds, " + reason
	}
	return fmt.Sprintf("fails: %s: %s", code, reason)
}

// summary returns the summary of a file that does not fail.
func (c *checker) summary() []Line {
	switch {
	case c.session != nil:
		return c.sessionSummary()
	case c.ofPeriod != nil:
		return c.reportSummary()
	}
	return c.recordSummary()
}

// recordSummary returns the summary of the file of one record.
func (c *checker) recordSummary() (lines summaryLines) {
	f, r, in := c.file, &c.file.Record, &c.content
	if f.Log == Control {
		lines.add("who", "the service itself, in the control log of the company %s", quoted(f.CompanyID))
	} else {
		lines.add("who", "agent %s of the company %s", quoted(in.agentID), quoted(f.CompanyID))
	}
	lines.add("signed by", "%s", c.companyKey(f.log(f.Log).generation(r.Index)))
	if f.Log != Control {
		lines.add("agent's signature", "%s", c.agentSignature())
	}
	lines.add("what", "%s, record %d of the log %s, %s by the service's clock", quoted(in.actionType), r.Index, f.Log, r.Timestamp)
	lines.add("payload", "%s", shown(string(canonical(in.payload))))
	if f.Log != Control {
		lines.add("on behalf of", "%s", c.behalf(in))
		lines = append(lines, c.rights()...)
		lines = append(lines, c.approvedLine()...)
	}
	return lines
}

// companyKey says whose key signed, where i is its place in the keys of the file.
func (c *checker) companyKey(i int) string {
	return CompanyKey(c.file.published[i].Fingerprint, c.trust)
}

// CompanyKey says whose key one of a file is that does not fail with what the person trusts.
func CompanyKey(key string, t Trust) string {
	switch {
	case t.Policy != nil:
		return "the company's key " + key + ", confirmed by the policy that you named"
	case t.Fingerprint == key:
		return "the company's key " + key + ", which " + t.keySource()
	case t.Fingerprint != "":
		return "the company's key " + key + ", confirmed by the key that " + t.keySource()
	}
	return "the key " + key + "; that it is the company's is not confirmed"
}

// agentSignature says whether the agent itself signed.
func (c *checker) agentSignature() string {
	s := c.signedBy
	if s == nil {
		return "none: that the agent did this is the company's word alone"
	}
	text := "by the key " + s.KeyID + ", which the company enrolled for this agent; that it is the agent's own is not confirmed"
	if s.Pinned && c.trust.AgentKey == s.KeyID {
		text = "by the agent's own key " + s.KeyID + ", which you named"
	} else if s.Pinned {
		text = "by the agent's own key " + s.KeyID + ", which follows from the one that you named"
	}
	if s.Since != "" {
		text += "; the key was in other hands since " + s.Since
	}
	return text
}

// behalf says for whom a record was made.
func (c *checker) behalf(in *content) string {
	if in.subject == nil {
		return "nobody else: it has no delegation"
	}
	var chain []string
	if len(in.delegated) == 0 || in.delegated[0] != *in.subject {
		chain = append(chain, quoted(*in.subject))
	}
	for _, id := range in.delegated {
		chain = append(chain, quoted(id))
	}
	text := shown(strings.Join(chain, " -> "))
	if c.notActor != nil {
		text += "; it was given to another one than this agent"
	}
	return text
}

// rights says what the file shows of the right to act. Whether the action was allowed is for the
// reader to judge: no file says that.
func (c *checker) rights() (lines summaryLines) {
	f, agent := c.file, quoted(c.content.agentID)
	switch last := c.latestEvent; {
	case f.Authority == nil:
		lines.add("right", "not in this file: it has no control records about the agent %s", agent)
	case last == nil:
		lines.add("right", "nothing here says that the agent %s was registered at that time", agent)
	default:
		lines.add("right", "the latest control record here about the agent %s at that time is %s, control record %d, %s",
			agent, quoted(last.action), last.index, last.timestamp)
	}
	if f.Passport == nil {
		return lines
	}
	scopes, state := "which nothing here says was ever issued", value{new(form), "status", f.Status}.status()
	for _, e := range c.ofPassport {
		if e.action == "passport.issued" {
			scopes = "issued with the scopes " + shown(string(scopesOf(e.payload)))
		}
	}
	lines.add("passport", "%s, %s, was %s at %s; nothing here says that this was done with it", quoted(f.Passport.JTI), scopes, state.state, state.checkedAt)
	return lines
}

// scopesOf returns the canonical form of the member scopes of a control record, or null.
func scopesOf(payload []byte) []byte {
	scopes := []byte("null")
	_ = strictjson.EachMember(payload, maxDepth, func(name, src []byte) {
		if string(name) == "scopes" {
			scopes = canonical(src)
		}
	})
	return scopes
}

// tally is what the summary of a session says of its records.
type tally struct {
	first, last string // times
	types       []string
	counts      []int64
	other       int64 // records of further types

	delegated int64
	delegate  Line // of the first record with a delegation: its index, and on whose behalf
}

func (t *tally) add(c *checker, r *chain.Record, in *content) {
	if t.first == "" {
		t.first = r.Timestamp
	}
	t.last = r.Timestamp
	if at := slices.Index(t.types, in.actionType); at >= 0 {
		t.counts[at]++
	} else if len(t.types) < maxTypes {
		t.types, t.counts = append(t.types, in.actionType), append(t.counts, 1)
	} else {
		t.other++
	}
	if in.subject == nil {
		return
	}
	if t.delegated++; t.delegated == 1 {
		t.delegate = Line{strconv.FormatInt(r.Index, 10), c.behalf(in)}
	}
}

// sessionSummary returns the summary of the file of a session.
func (c *checker) sessionSummary() (lines summaryLines) {
	s, t := c.session, &c.tally
	lines.add("who", "agent %s of the company %s, in its session %s", quoted(s.AgentID), quoted(c.file.CompanyID), quoted(s.ID))
	lines.add("signed by", "%s", c.companyKey(len(c.file.Keys)-1))
	lines.add("agent's signature", "%s", c.agentSignature())
	lines.add("what", "%s, %s; from %s to %s by the service's clock", printable.Count(s.Records, "record"), s, t.first, t.last)
	actions := make([]string, len(t.types))
	for i, name := range t.types {
		actions[i] = fmt.Sprintf("%s (%d)", quoted(name), t.counts[i])
	}
	if t.other > 0 {
		actions = append(actions, fmt.Sprintf("other types (%d)", t.other))
	}
	lines.add("actions", "%s", shown(strings.Join(actions, ", ")))
	lines.add("payload", "not shown: each record has its own, in its line of the file")
	if t.delegated == 0 {
		lines.add("on behalf of", "nobody else: no record has a delegation")
	} else {
		lines.add("on behalf of", "%d of %s have a delegation, the first of them record %s: %s", t.delegated, printable.Count(s.Records, "record"), t.delegate.Name, t.delegate.Text)
	}
	lines.add("right", "not in this file: it has no control records about the agent %s but those of its key", quoted(s.AgentID))
	return append(lines, c.approvedLine()...)
}

// approvedLine says who approved what was allowed with an approval, if anything was.
func (c *checker) approvedLine() (lines summaryLines) {
	if c.approvals.Recorded > 0 {
		lines.add("approved", "%s", &c.approvals)
	}
	return lines
}

// reportSummary returns the summary of a report.
func (c *checker) reportSummary() (lines summaryLines) {
	r := c.ofPeriod
	records := func(i int) int64 { return c.notes[c.file.Logs[i].Name].Size - r.Periods[i].Frontier.Size }
	lines.add("who", "all agents of the company %s", quoted(c.file.CompanyID))
	lines.add("signed by", "%s", c.companyKey(len(c.file.Keys)-1))
	lines.add("what", "all records from %s until %s by the service's clock: %d of actions, %d of control", r.From, r.To, records(0), records(1))
	lines.add("payload", "not shown: each record has its own, in its line of the file")
	lines.add("on behalf of", "attestd report prints which agents acted by delegation")
	lines.add("right", "attestd report prints every change of rights in this time")
	return lines
}

// quoted returns a string of the file in its canonical JSON form, in which it ends where it ends.
func quoted(text string) string { return string(jcs.AppendString(nil, text)) }

// shown returns a text, or its beginning and how long all of it is.
func shown(text string) string {
	length := utf8.RuneCountInString(text)
	if length <= MaxShown {
		return text
	}
	end := 0
	for range MaxShown {
		_, size := utf8.DecodeRuneInString(text[end:])
		end += size
	}
	return fmt.Sprintf("the first %s of %s characters: %s", grouped(MaxShown), grouped(length), text[:end])
}

// grouped writes a number as 51,234.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
