package evidence_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/chain/approval"
	"attestd/chain/decision"
	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/crypto/jcs"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/internal/must"
)

// rules are the policies of a company, as its control log has them.
type rules struct {
	*company
	texts    map[string]string
	revision int64
}

const (
	allowAll  = `permit (principal, action, resource);`
	asksAll   = `permit (principal, action, resource) when { context.approved };`
	forbidAll = `forbid (principal, action, resource);`
	noForce   = `forbid (principal, action == Action::"call", resource == Tool::"Bash") when { context.words.contains("git push --force") };`
	pushForce = `{"tool":"Bash","input":{"command":"git push --force"}}`
)

func (r *rules) hash() string {
	sums := maps.Clone(r.texts)
	for id, text := range sums {
		sums[id] = decision.HashText(text)
	}
	return decision.HashSet(sums)
}

// put puts a policy; "" deletes it. details may say something else than what is true.
func (r *rules) put(id, text string, details map[string]any) {
	action, all := "policy.put", map[string]any{"policyId": id}
	if r.revision++; text == "" {
		action = "policy.deleted"
		delete(r.texts, id)
	} else {
		r.texts[id] = text
		all["cedar"], all["sha256"], all["description"] = text, decision.HashText(text), nil
	}
	all["revision"], all["set"] = r.revision, r.hash()
	maps.Copy(all, details)
	r.change(action, "policies", all)
}

// made is a decision by the policies in force, which change may spoil.
func (r *rules) made(verdict, by string, change func(*decision.Decision)) string {
	r.t.Helper()
	d := decision.Decision{Verdict: verdict, By: []string{by}, Policies: r.hash(), Revision: r.revision,
		Context: decision.Context{Door: "attest", Time: "2026-11-21T09:00:00.000Z"}}
	if verdict == decision.Deny {
		d.Code = decision.PolicyDenied
	}
	if change != nil {
		change(&d)
	}
	text, err := d.Append(nil)
	must.OK(r.t, err)
	return `,"decision":` + string(text)
}

// decidedFile is evidence of a decision, with the control records of policies.
func (r *rules) decidedFile(index int64, keep func(id string, revision int64) bool) *evidence.File {
	r.t.Helper()
	f := r.file(0, index, r.checkpoint(0))
	f.Policies = &evidence.Policies{Entries: r.policyEntries(r.checkpoint(1), keep)}
	return f
}

func (r *rules) policyEntries(checkpoint []byte, keep func(id string, revision int64) bool) []evidence.Entry {
	all := r.entries(checkpoint, func(subject string) bool { return subject == "policies" })
	return slices.DeleteFunc(all, func(e evidence.Entry) bool {
		if keep == nil {
			return false
		}
		var body struct {
			Payload struct {
				PolicyID string
				Revision int64
			}
		}
		must.OK(r.t, json.Unmarshal(e.Record.Payload, &body))
		return !keep(body.Payload.PolicyID, body.Payload.Revision)
	})
}

// newRules begins with two policies in force: everything is allowed but git push --force. The first
// text of no-force and a policy that is deleted again are no part of them.
func newRules(t testing.TB) *rules {
	r := &rules{company: newCompany(t), texts: make(map[string]string)}
	r.change("company.registered", "company:acme", nil)
	r.put("all", allowAll, nil)
	r.put("no-force", strings.Replace(noForce, "forbid", "permit", 1), nil)
	r.put("old", allowAll, nil)
	r.put("no-force", noForce, nil)
	r.put("old", "", nil)
	return r
}

// inForce are the changes that make the set of newRules.
func inForce(id string, revision int64) bool { return id == "all" || revision >= 4 }

// refused is a file about a refusal, with the change of policies that came after it.
func refused(t testing.TB) *evidence.File {
	r := newRules(t)
	r.add(0, agentID, "tool.requested", pushForce+r.made("deny", "no-force", nil), "")
	r.put("all", `permit (principal, action, resource == Tool::"Read");`, nil)
	return r.decidedFile(0, inForce)
}

// decidedCase is a file with decisions that an operator made who has every key of the company, or
// an honest one. Other checkers read the list too.
type decidedCase struct {
	Name string `json:"name"`
	File string `json:"file"`

	Code  evidence.Code `json:"code"`  // of every checker
	Again evidence.Code `json:"again"` // where policies are evaluated
	Says  string        `json:"says"`  // of one that does not evaluate policies
}

func decidedCases(t *testing.T) (list []decidedCase) {
	const found = evidence.BadDecision
	add := func(name string, code, again evidence.Code, says string, text []byte) {
		list = append(list, decidedCase{name, string(text), code, again, says})
	}
	one := func(name string, code, again evidence.Code, says string, make func(r *rules) *evidence.File) {
		add(name, code, again, says, make(newRules(t)).JSON())
	}
	call := func(r *rules, verdict, by string, change func(*decision.Decision)) {
		r.add(0, agentID, "tool.requested", pushForce+r.made(verdict, by, change), "")
	}
	const notEvaluated = "not decided again: the rules were not evaluated here"
	one("genuine", "", "", notEvaluated, func(r *rules) *evidence.File {
		call(r, "deny", "no-force", nil)
		return r.decidedFile(0, inForce)
	})
	one("genuine, with all changes", "", "", "the 2 policies in force, revision 5: deny by no-force", func(r *rules) *evidence.File {
		call(r, "deny", "no-force", nil)
		r.put("all", "", nil)
		return r.decidedFile(0, nil)
	})
	one("genuine, the last policy deleted", "", "", "the 0 policies in force, revision 7: allow", func(r *rules) *evidence.File {
		r.put("all", "", nil)
		r.put("no-force", "", nil)
		call(r, "allow", "", func(d *decision.Decision) { d.By = nil })
		return r.decidedFile(0, func(_ string, revision int64) bool { return revision == 7 })
	})
	one("genuine, before there was a policy", "", "", "the 0 policies in force, revision 0: allow", func(r *rules) *evidence.File {
		call(r, "allow", "", func(d *decision.Decision) { d.By, d.Revision, d.Policies = nil, 0, decision.HashSet(nil) })
		f := r.decidedFile(0, nil)
		f.Policies = nil
		return f
	})
	one("the policies left out as a whole", "", "", "not decided again: the file does not have the policies of revision 5", func(r *rules) *evidence.File {
		call(r, "deny", "no-force", nil)
		f := r.decidedFile(0, inForce)
		f.Policies = nil
		return f
	})
	one("refused by its passport", "", "", "which does not follow from policies", func(r *rules) *evidence.File {
		call(r, "deny", "", func(d *decision.Decision) { d.By, d.Code, d.Passport = nil, "SCOPE_DENIED", jti })
		return r.decidedFile(0, inForce)
	})
	one("policies of a record without a decision", found, found, "", func(r *rules) *evidence.File {
		r.add(0, agentID, "tool.requested", pushForce, "")
		return r.decidedFile(0, inForce)
	})
	one("a policy left out of the set", found, found, "", func(r *rules) *evidence.File {
		call(r, "deny", "no-force", nil)
		return r.decidedFile(0, func(id string, revision int64) bool { return id != "all" && inForce(id, revision) })
	})
	one("the newest change left out", found, found, "", func(r *rules) *evidence.File {
		call(r, "deny", "no-force", nil)
		return r.decidedFile(0, func(id string, revision int64) bool { return inForce(id, revision) && revision < 5 })
	})
	one("the set of the revision before", found, found, "", func(r *rules) *evidence.File {
		older := r.hash()
		r.put("all", `permit (principal, action, resource == Tool::"Read");`, nil)
		call(r, "deny", "no-force", func(d *decision.Decision) { d.Policies = older })
		return r.decidedFile(0, nil)
	})
	one("an older set, after it had ended", found, found, "", func(r *rules) *evidence.File {
		older := r.hash()
		r.put("no-force", strings.Replace(noForce, "force", "mirror", 1), nil)
		r.now = r.now.Add(10 * time.Second)
		call(r, "deny", "no-force", func(d *decision.Decision) { d.Policies, d.Revision = older, 5 })
		return r.decidedFile(0, nil)
	})
	one("a set that began later", found, found, "", func(r *rules) *evidence.File {
		then := r.now
		r.now = r.now.Add(time.Minute)
		r.put("no-force", noForce+" ", nil)
		r.now = then
		call(r, "deny", "no-force", nil)
		return r.decidedFile(0, nil)
	})
	one("a text that is not of its hash", found, found, "", func(r *rules) *evidence.File {
		r.put("no-force", noForce, map[string]any{"cedar": allowAll})
		call(r, "deny", "no-force", nil)
		return r.decidedFile(0, nil)
	})
	one("a control record that names another set", found, found, "", func(r *rules) *evidence.File {
		r.put("no-force", noForce+" ", map[string]any{"set": strings.Repeat("0", 64)})
		call(r, "deny", "no-force", nil)
		return r.decidedFile(0, nil)
	})
	for _, odd := range []map[string]any{
		{"revision": 5}, {"revision": 0}, {"revision": "6"}, {"policyId": "a b"}, {"policyId": 1}, {"set": "AA"}, {"cedar": nil}, {"sha256": nil},
	} {
		text, err := json.Marshal(odd)
		must.OK(t, err)
		one("a change with "+string(text), found, found, "", func(r *rules) *evidence.File {
			r.put("no-force", noForce+" ", odd)
			call(r, "deny", "no-force", nil)
			return r.decidedFile(0, nil)
		})
	}
	one("another control record among the policies", found, found, "", func(r *rules) *evidence.File {
		call(r, "deny", "no-force", nil)
		r.change("row.accepted", "policies", map[string]any{"policyId": "all", "revision": 6, "set": r.hash()})
		return r.decidedFile(0, nil)
	})
	one("another verdict", "", found, notEvaluated, func(r *rules) *evidence.File {
		call(r, "allow", "all", nil)
		return r.decidedFile(0, inForce)
	})
	one("denied by another policy", "", found, notEvaluated, func(r *rules) *evidence.File {
		call(r, "deny", "all", nil)
		return r.decidedFile(0, inForce)
	})
	one("another code", "", found, notEvaluated, func(r *rules) *evidence.File {
		call(r, "deny", "no-force", func(d *decision.Decision) { d.Code = decision.Failed })
		return r.decidedFile(0, inForce)
	})
	one("an error that no policy made", "", found, notEvaluated, func(r *rules) *evidence.File {
		call(r, "deny", "no-force", func(d *decision.Decision) { d.Errors = []string{"all"} })
		return r.decidedFile(0, inForce)
	})
	approved := func(d *decision.Decision) { d.Approval = approval.FormatID([16]byte{1}) }
	for _, c := range []struct {
		name, text, verdict string
		change              func(*decision.Decision)
		again               evidence.Code
	}{
		{"asked", asksAll, "ask", approved, ""},
		{"asked, of what cannot be approved", asksAll, "ask", nil, ""},
		{"allowed with an approval", asksAll, "allow", approved, ""},
		{"allowed without an approval", asksAll, "allow", nil, found},
		{"denied with an approval", asksAll, "deny", approved, found},
		{"asked where the policies allow", allowAll, "ask", approved, found},
		{"allowed with an approval where the policies deny", forbidAll, "allow", approved, found},
	} {
		one(c.name, "", c.again, notEvaluated, func(r *rules) *evidence.File {
			r.put("no-force", "", nil)
			r.put("all", c.text, nil)
			call(r, c.verdict, "all", c.change)
			return r.decidedFile(0, nil)
		})
	}
	passportCases(one)
	add("a session over a change", "", "", "2 of 3 decisions not decided again: the rules were not evaluated here", decidedSession(t, "allow", true, nil))
	add("a session without the policies", "", "", "2 of 3 decisions not decided again: the file does not have the policies of revision", decidedSession(t, "allow", false, nil))
	add("a session with another verdict", "", found, notEvaluated[:11], decidedSession(t, "deny", true, nil))
	add("a session without a change", found, found, "", decidedSession(t, "allow", true, func(_ string, revision int64) bool { return revision != 6 }))
	return list
}

// decidedSession is a session with a decision before there was a policy, and one before and one
// after no-force is deleted; verdict is that of the last.
func decidedSession(t testing.TB, verdict string, held bool, keep func(string, int64) bool) []byte {
	r := newRules(t)
	key := agentKey(t, jose.EdDSA, 1)
	kid := r.enrol(agentID, key.Key(), nil)
	previous := ""
	step := func(seq int64, made string) {
		s := r.state(key, agentID, "tool.requested", pushForce, func(c *statement.Claims) {
			c.Session, c.Seq, c.Previous, c.End = "run-1", seq, previous, seq == 2
		})
		previous = s.Hash()
		r.add(0, agentID, "tool.requested", pushForce+made+`,"statement":`+string(jcs.AppendString(nil, s.Compact)), "")
	}
	step(0, r.made("deny", "", func(d *decision.Decision) { d.By, d.Code, d.Passport = nil, "SCOPE_DENIED", jti }))
	step(1, r.made("deny", "no-force", nil))
	r.put("no-force", "", nil)
	step(2, r.made(verdict, "all", nil))
	r.policies = nil
	if held {
		r.policies = &evidence.Policies{Entries: r.policyEntries(r.checkpoint(1, witnessA), keep)}
	}
	return r.session(kid, "run-1", []string{kid}, 0, 1, 2)
}

// The control records of policies prove the set that a decision names: who has every key of the
// company can leave none out, exchange none, and replay no older set. A checker that does not
// evaluate policies says so.
func TestDecisionsNameTheirPolicies(t *testing.T) {
	t.Parallel()
	testdata(t, "decided.json", refused(t).JSON())
	list := decidedCases(t)
	text, err := json.MarshalIndent(list, "", " ")
	must.OK(t, err)
	testdata(t, "decisions.json", append(text, '\n'))
	for _, c := range list {
		check := evidence.Check
		if strings.Contains(c.File, evidence.SessionFormat) {
			check = checkSession
		}
		v := check([]byte(c.File), evidence.Trust{Fingerprint: fingerprint(0)})
		want := evidence.Holds
		if c.Code != "" {
			want = evidence.Fails
		}
		if v.Outcome != want || v.Code != c.Code || !strings.Contains(strings.Join(v.Checked, "\n"), c.Says) {
			t.Errorf("%s: %+v", c.Name, v)
		}
		if (v.Decisions == nil) != (c.Code != "") || v.Decisions != nil && v.Decisions.Again != 0 {
			t.Errorf("%s: %+v", c.Name, v.Decisions)
		}
	}
}

// A report has all changes of policies in its period, so a decision by a set that was not in force
// is found even where its maker left the policies out.
func TestReportFindsDecisionsByOtherPolicies(t *testing.T) {
	t.Parallel()
	report := func(held bool, keep func(string, int64) bool, change func(*decision.Decision)) evidence.Verdict {
		r := newRules(t)
		var start [2]tlog.Frontier
		for i, l := range r.logs {
			start[i], _ = tlog.Frontier{}.Append(l.leaves...)
		}
		from := r.now.Add(1)
		r.add(0, agentID, "tool.requested", pushForce+r.made("deny", "no-force", nil), "")
		r.put("all", allowAll+" ", nil)
		r.now = r.now.Add(10 * time.Second)
		r.add(0, agentID, "tool.requested", pushForce+r.made("deny", "no-force", change), "")
		r.policies = nil
		if held {
			size := start[1].Size
			r.policies = &evidence.Policies{Entries: slices.DeleteFunc(r.policyEntries(r.checkpoint(1, witnessA), keep),
				func(e evidence.Entry) bool { return e.Record.Index >= size })}
		}
		v, _ := checkReport(r.report(from, start, witnessA), evidence.Trust{Fingerprint: fingerprint(0)})
		return v
	}
	older := func(d *decision.Decision) { d.Policies, d.Revision = newRules(t).hash(), 5 }
	for name, test := range map[string]struct {
		held   bool
		keep   func(string, int64) bool
		change func(*decision.Decision)
		code   evidence.Code
		says   string
	}{
		"genuine":                             {true, nil, nil, "", "2 of 2 decisions not decided again: the rules were not evaluated here"},
		"without what was there before":       {false, nil, nil, "", "1 of 2 decisions not decided again: the file does not have the policies of revision 6"},
		"an older set":                        {true, nil, older, evidence.BadDecision, ""},
		"an older set, and the policies left": {false, nil, older, evidence.BadDecision, ""},
		"a policy left out":                   {true, func(id string, _ int64) bool { return id != "all" }, nil, evidence.BadDecision, ""},
		"another set":                         {true, nil, func(d *decision.Decision) { d.Policies = decision.HashSet(nil) }, evidence.BadDecision, ""},
	} {
		v := report(test.held, test.keep, test.change)
		if v.Code != test.code || (v.Outcome == evidence.Holds) != (test.code == "") || !strings.Contains(fmt.Sprint(v.Checked), test.says) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
