package federation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
)

// Error says what is wrong with rules, and where.
type Error struct {
	Pointer string // RFC 6901, from the list of the rules on
	Message string
}

func (e *Error) Error() string { return e.Message }

const maxDepth = 8

// Parse reads a list of rules. The error is an *Error.
func Parse(text []byte) (*Rules, error) {
	r := &Rules{}
	var all []string
	err := eachRule(text, func(value []byte, at string) error {
		one, text, err := parseRule(value, at)
		r.rules, all = append(r.rules, one), append(all, text)
		return err
	})
	if err != nil {
		return nil, err
	}
	canonical, err := jcs.Append(nil, []byte("["+strings.Join(all, ",")+"]"), maxDepth)
	if err != nil {
		return nil, &Error{"", "must be JSON that has a canonical form"}
	}
	r.text = string(canonical)
	return r, nil
}

// eachRule calls read with each rule of a list, and where it is, up to the first error. The error
// is an *Error.
func eachRule(text []byte, read func(value []byte, at string) error) error {
	if len(text) > maxText {
		return &Error{"", fmt.Sprintf("must have at most %d bytes", maxText)}
	}
	n := 0
	var failed error
	err := strictjson.EachElement(text, maxDepth, func(value []byte) {
		switch {
		case failed != nil:
		case n >= maxRules:
			failed = &Error{"", fmt.Sprintf("must have at most %d rules", maxRules)}
		default:
			failed = read(value, "/"+strconv.Itoa(n))
			n++
		}
	})
	switch {
	case failed != nil:
		return failed
	case err != nil || n == 0:
		return &Error{"", fmt.Sprintf("must be an array of 1 to %d rules", maxRules)}
	}
	return nil
}

// membersOf reads a rule, of which a member that is null is absent.
func membersOf(value []byte, at string, known ...string) (map[string][]byte, error) {
	members := make(map[string][]byte, len(known))
	unknown := ""
	if strictjson.EachMember(value, maxDepth, func(name, value []byte) {
		switch {
		case !slices.Contains(known, string(name)):
			unknown = string(name)
		case string(value) != "null":
			members[string(name)] = value
		}
	}) != nil {
		return nil, &Error{at, "must be an object"}
	}
	if unknown != "" {
		return nil, &Error{at, "has a member that no rule has: " + strconv.Quote(unknown)}
	}
	return members, nil
}

// parseRule reads one rule, and writes it with all its members.
func parseRule(value []byte, at string) (r rule, text string, err error) {
	members, err := membersOf(value, at, "match", "agentId", "scope", "ttl", "register", "person")
	if err != nil {
		return r, "", err
	}
	if r.person, err = isTrue(members["person"], at+"/person"); err != nil {
		return r, "", err
	}
	matched, match, err := r.parseMatch(members["match"], at+"/match")
	if err != nil {
		return r, "", err
	}
	agent, is := strictjson.AsString(members["agentId"])
	if !is {
		return r, "", &Error{at + "/agentId", "must be a string"}
	}
	if r.agent, err = newTemplate(agent, anAgent, matched); err != nil {
		return r, "", &Error{at + "/agentId", err.Error()}
	}
	if scope, is := strictjson.AsString(members["scope"]); members["scope"] != nil && (!is || scope != scopeAgent) {
		return r, "", &Error{at + "/scope", "must be " + scopeAgent + ": a federated workload acts as its agent and as nothing else"}
	}
	r.ttl = maxTTL
	if members["ttl"] != nil {
		if r.ttl, is = strictjson.AsInteger(members["ttl"]); !is || r.ttl < 1 || r.ttl > maxTTL {
			return r, "", &Error{at + "/ttl", fmt.Sprintf("must be a whole number from 1 to %d", maxTTL)}
		}
	}
	if r.register, err = isTrue(members["register"], at+"/register"); err != nil {
		return r, "", err
	}
	out := jcs.AppendString([]byte(`{"match":{`+match+`},"agentId":`), agent)
	out = fmt.Appendf(out, `,"scope":%q,"ttl":%d,"register":%t`, scopeAgent, r.ttl, r.register)
	if r.person { // older rules have no such member
		out = append(out, `,"person":true`...)
	}
	return r, string(out) + "}", nil
}

// isTrue reads true or false, which is false where it is absent.
func isTrue(value []byte, at string) (bool, error) {
	switch string(value) {
	case "true":
		return true, nil
	case "false", "":
		return false, nil
	}
	return false, &Error{at, "must be true or false"}
}

// parseMatch reads the claims of a rule, and returns their names, and its members as text.
func (r *rule) parseMatch(value []byte, at string) (matched map[string]bool, text string, err error) {
	matched = map[string]bool{}
	identified := false
	var all []string
	r.match, err = parseConditions(value, at, func(claim string, value []byte) {
		text, is := strictjson.AsString(value)
		if r.person {
			identified = identified || claim == "client_id" && is && !strings.Contains(text, "*")
		} else {
			identified = identified || identifies(claim, value)
		}
		matched[claim] = true
		if is {
			value = jcs.AppendString(nil, text)
		}
		all = append(all, string(jcs.AppendString(nil, claim))+":"+string(value))
	})
	switch {
	case err != nil:
		return nil, "", err
	case !identified && r.person:
		return nil, "", &Error{at, "must match client_id without a *: the client that presents the assertion of a person"}
	case !identified:
		return nil, "", &Error{at, "must match a claim that only the workload has: sub, repository, repository_id, project_path, project_id or " +
			"/kubernetes.io/serviceaccount/uid; with a * only behind the whole name of the owner, as in repo:octo-org@65/*@*:ref:refs/heads/main, with GitHub's number of the owner"}
	}
	return matched, strings.Join(all, ","), nil
}

// parseConditions reads the claims that a rule must match, and calls each with one.
func parseConditions(value []byte, at string, each func(claim string, value []byte)) (match []condition, err error) {
	var failed error
	bad := strictjson.EachMember(value, maxDepth, func(name, value []byte) {
		if failed != nil {
			return
		}
		claim := string(name)
		c, err := newCondition(claim, value)
		if err != nil {
			failed = &Error{at + "/" + escape(claim), err.Error()}
			return
		}
		match = append(match, c)
		each(claim, value)
	})
	switch {
	case bad != nil || len(match) == 0 && failed == nil || len(match) > maxClaims:
		return nil, &Error{at, fmt.Sprintf("must be an object of 1 to %d claims", maxClaims)}
	case failed != nil:
		return nil, failed
	}
	return match, nil
}

// escape writes a name as a part of a JSON Pointer; a long one is cut.
func escape(name string) string {
	if len(name) > maxClaim {
		name = name[:maxClaim]
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
