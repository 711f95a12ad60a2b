package evidence_test

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"attestd/chain/decision"
	"attestd/chain/evidence"
)

// passportFile is evidence of a decision, with the control records of passports.
func (r *rules) passportFile(index int64) *evidence.File {
	r.t.Helper()
	f := r.decidedFile(index, inForce)
	f.Passports = &evidence.Passports{Entries: r.entries(r.checkpoint(1), func(subject string) bool {
		return strings.HasPrefix(subject, "passport:") || strings.HasPrefix(subject, "agent:")
	})}
	return f
}

// issue issues the passport, of whose control record details change some members; nil removes one.
func (r *rules) issue(details map[string]any) {
	all := map[string]any{"jti": jti, "agentId": agentID, "scopes": []string{"tool:Bash"}, "issuedAt": r.now.Unix(), "expiresAt": r.now.Add(time.Hour).Unix()}
	maps.Copy(all, details)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	r.change("passport.issued", "passport:"+jti, all)
}

const (
	statusCall  = `{"tool":"Bash","input":{"command":"git status","timeout":10}}`
	grantStatus = `[{"type":"tool_call","tools":["Bash"],"arguments":{"/command":{"prefix":"git "},"/timeout":{"max":10}}}]`
)

// sorted yields a map in the order of its keys.
func sorted[V any](of map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(of)) {
			if !yield(key, of[key]) {
				return
			}
		}
	}
}

// passportCases are decisions that name a passport whose control records are in the file.
func passportCases(one func(name string, code, again evidence.Code, says string, make func(r *rules) *evidence.File)) {
	const found = evidence.BadDecision
	add := func(name string, code evidence.Code, make func(r *rules) *evidence.File) {
		says := ""
		if code == "" {
			says = "the 2 policies in force, revision 5"
		}
		one(name, code, code, says, make)
	}
	by := func(r *rules, verdict, code, payload string, actionType string) *evidence.File {
		r.t.Helper()
		r.add(0, agentID, actionType, payload+r.made(verdict, "all", func(d *decision.Decision) {
			d.Passport = jti
			if d.Code = code; code != "" {
				d.By = nil
			}
		}), "")
		return r.passportFile(0)
	}
	allowed := func(r *rules) *evidence.File { return by(r, "allow", "", statusCall, "tool.requested") }
	issued := func(details map[string]any) func(r *rules) *evidence.File {
		return func(r *rules) *evidence.File {
			r.issue(details)
			return allowed(r)
		}
	}
	add("a passport", "", issued(nil))
	add("a passport with details", "", issued(map[string]any{"authorizationDetails": json.RawMessage(grantStatus)}))
	for _, scopes := range [][]string{{"tool:*"}, {"*"}, {"attest:write", "tool:Bash"}} {
		add("a passport for "+strings.Join(scopes, " "), "", issued(map[string]any{"scopes": scopes}))
	}
	add("the passport is not in the file", "", func(r *rules) *evidence.File {
		f := allowed(r)
		f.Passports = nil
		return f
	})
	add("the passport's issue is not in the file", "", func(r *rules) *evidence.File {
		r.change("passport.revoked", "passport:"+jti, map[string]any{"agentId": agentID})
		r.now = r.now.Add(time.Minute)
		return allowed(r)
	})
	add("passports of a decision that names none", found, func(r *rules) *evidence.File {
		r.issue(nil)
		r.add(0, agentID, "tool.requested", statusCall+r.made("allow", "all", nil), "")
		return r.passportFile(0)
	})
	add("passports of a record without a decision", found, func(r *rules) *evidence.File {
		r.issue(nil)
		r.add(0, agentID, "tool.requested", statusCall, "")
		f := r.passportFile(0)
		f.Policies = nil
		return f
	})
	add("a passport without the scope", found, issued(map[string]any{"scopes": []string{"tool:Read", "Bash"}}))
	for name, limits := range sorted(map[string]string{
		"another tool":       `[{"type":"tool_call","tools":["Read"]}]`,
		"other arguments":    strings.Replace(grantStatus, "git ", "ls ", 1),
		"a smaller argument": strings.Replace(grantStatus, "10", "9.5", 1),
	}) {
		add("a passport with details for "+name, found, issued(map[string]any{"authorizationDetails": json.RawMessage(limits)}))
	}
	add("a passport of another agent", found, issued(map[string]any{"agentId": "other"}))
	add("a passport that had expired", found, func(r *rules) *evidence.File {
		r.issue(map[string]any{"expiresAt": r.now.Unix()})
		r.now = r.now.Add(time.Minute)
		return allowed(r)
	})
	for action, subject := range sorted(map[string]string{"passport.revoked": "passport:" + jti, "agent.disabled": "agent:" + agentID}) {
		ends := func(r *rules) { r.change(action, subject, map[string]any{"agentId": agentID}) }
		add("ended before: "+action, found, func(r *rules) *evidence.File {
			r.issue(nil)
			ends(r)
			r.now = r.now.Add(10 * time.Second)
			return allowed(r)
		})
		add("ended a moment before: "+action, "", func(r *rules) *evidence.File {
			r.issue(nil)
			ends(r)
			return allowed(r)
		})
		add("ended afterwards: "+action, "", func(r *rules) *evidence.File {
			r.issue(nil)
			f := allowed(r)
			ends(r)
			later := r.passportFile(0)
			if len(later.Passports.Entries) != len(f.Passports.Entries)+1 {
				r.t.Fatal("the end is not in the file")
			}
			return later
		})
	}
	add("a passport that was issued later", found, func(r *rules) *evidence.File {
		then := r.now
		r.now = r.now.Add(time.Minute)
		r.issue(nil)
		r.now = then
		return allowed(r)
	})
	add("a passport that is issued twice", found, func(r *rules) *evidence.File {
		r.issue(nil)
		r.issue(nil)
		return allowed(r)
	})
	for _, odd := range []map[string]any{
		{"agentId": nil}, {"agentId": ""}, {"agentId": 1}, {"scopes": nil}, {"scopes": []string{}}, {"scopes": []any{1}}, {"scopes": "tool:*"}, {"expiresAt": nil},
		{"expiresAt": "1"}, {"expiresAt": -1}, {"expiresAt": 253402300800}, {"authorizationDetails": json.RawMessage(`null`)}, {"authorizationDetails": []any{}},
		{"authorizationDetails": json.RawMessage(strings.Replace(grantStatus, "max", "below", 1))},
	} {
		text, _ := json.Marshal(odd)
		add("a passport with "+string(text), found, issued(odd))
	}
	add("another control record among the passports", found, func(r *rules) *evidence.File {
		r.issue(nil)
		r.change("agent.registered", "agent:"+agentID, map[string]any{"agentId": agentID})
		return allowed(r)
	})
	// what the same tool is called elsewhere
	for payload, limits := range sorted(map[string]string{
		`{"tool":"transfer","server":"bank","arguments":{"command":"git a","timeout":1}}`: `["bank/transfer"]`,
		`{"tool":"mcp__bank__transfer","input":{"command":"git a","timeout":1}}`:          `["transfer"]`,
		`{"tool":"mcp__bank__pay__now","input":{"command":"git a","timeout":1}}`:          `["bank/pay__now"]`,
	}) {
		details := strings.Replace(grantStatus, `["Bash"]`, limits, 1)
		add("a call "+payload, "", func(r *rules) *evidence.File {
			r.issue(map[string]any{"scopes": []string{"tool:transfer", "tool:mcp__bank__pay__now"}, "authorizationDetails": json.RawMessage(details)})
			return by(r, "allow", "", payload, "tool.requested")
		})
	}
	// a verified passport
	verified := func(resource string) string {
		return `{"door":"verify","action":"call","resource":{"type":"tool","id":"` + resource + `"},"arguments":{"command":"git a","timeout":1}}`
	}
	for resource, code := range sorted(map[string]evidence.Code{"Bash": "", "bank/Bash": "", "Read": found}) {
		add("verified for "+resource, code, func(r *rules) *evidence.File {
			r.issue(nil)
			return by(r, "allow", "", verified(resource), "authorization.allowed")
		})
	}
	const notFrom = "which does not follow from policies" // without a quote, which JSON escapes
	one("denied without a scope", "", "", notFrom, func(r *rules) *evidence.File {
		r.issue(map[string]any{"scopes": []string{"tool:Read"}})
		return by(r, "deny", "SCOPE_DENIED", statusCall, "tool.requested")
	})
	add("denied for its scope, which it has", found, func(r *rules) *evidence.File {
		r.issue(nil)
		return by(r, "deny", "SCOPE_DENIED", statusCall, "tool.requested")
	})
	add("denied because it is revoked", "", func(r *rules) *evidence.File {
		r.issue(nil)
		r.change("passport.revoked", "passport:"+jti, map[string]any{"agentId": agentID})
		r.now = r.now.Add(time.Minute)
		return by(r, "deny", "PASSPORT_REVOKED", statusCall, "tool.requested")
	})
	add("a record that calls no tool", "", func(r *rules) *evidence.File {
		r.issue(map[string]any{"scopes": []string{"attest:write"}})
		return by(r, "allow", "", `{"a":1}`, "deploy")
	})
}
