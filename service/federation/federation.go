// Package federation decides which agent a workload is that another issuer has named. It has no
// clock, does no I/O and checks no signature: package idtoken has done so before.
//
// # Rules
//
// A federation has 1 to 50 rules. The first that matches a token's claims gives the agent; where
// none does, there is none. A rule is a JSON object:
//
//	match     an object of 1 to 16 claims, all of which must match
//	agentId   the agent; {claim} is replaced with the value of a claim
//	scope     "agent", which is what there is
//	ttl       1 to 3600 seconds, for which an access token counts at most; 3600 where absent
//	register  true registers the agent where it is not; false where absent
//	person    true for identity assertions of persons alone; false for workloads alone, and absent
//
// A claim is named by its name, or by a JSON Pointer (RFC 6901) of two parts or more into objects:
// /kubernetes.io/namespace. A claim that is absent, a list or an object matches nothing.
//
// A value is a text, true, false, or a whole number; it matches a claim of the same type alone. In
// a text, * matches one or more of the characters A-Z a-z 0-9 . _ ~ + -, and never for what
// separates the parts of a name, such as / : @ | and white space: a name of several parts needs a *
// for each. All other characters match themselves. Case counts. There is no escape: a text with
// a * in it cannot be matched alone.
//
// # Which rules are refused
//
// A rule must match a claim that only the workload has, and whose owner it names in full:
//
//	sub              without *, or after two whole parts (repo:octo-org@65/*@*…); after three where
//	                 it begins with system:serviceaccount: or spiffe://, which name no owner
//	repository       without *, or after one whole part (octo-org/*)
//	project_path     the same
//	repository_id, project_id, /kubernetes.io/serviceaccount/uid    without *
//
// A rule for persons must match client_id without *: the client presents the assertion, and
// must show who it is. The person is the one that the issuer names to this client, and may be
// matched too.
//
// Otherwise a rule such as repo:*, or repo:octo-*/app, would let in anyone with an account at the
// issuer. Parts are separated by / and :, and a part with a * is not complete. Subjects of GitHub
// have the numbers of owner and repository since July 2026; a rule with the names alone
// (repo:octo-org/*) is accepted, and lets in the subjects that have none.
//
// # The agent's ID
//
// It is 1 to 128 characters of A-Z a-z 0-9 . _ -, and not . or .. ; each claim in it must be one of
// match. A value is a text or a whole number. Its / are written __ ; a value with another character
// outside that set, with __, or with _ next to / is refused, so that two values never give one ID.
// Where another claim follows in the ID, the value must not have the character behind it either:
// with {namespace}.{name} no namespace with a dot is accepted. Nothing is cut off.
package federation

import (
	"encoding/json"
	"regexp"
	"slices"

	"attestd/crypto/idtoken"
)

const (
	maxRules    = 50
	maxText     = 32 << 10 // bytes of all
	maxClaims   = 16
	maxClaim    = 256  // bytes of a claim's name
	maxValue    = 1024 // bytes of a value
	maxNumber   = 1 << 53
	maxStars    = 8    // in a value
	maxTemplate = 512  // bytes of agentId
	maxTTL      = 3600 // seconds

	scopeAgent = "agent" // the only scope
)

// Rules are the rules of a federation, in order. They are immutable.
type Rules struct {
	rules []rule
	text  string
}

type rule struct {
	match    []condition
	agent    template
	ttl      int64
	register bool
	person   bool
}

// condition is a claim that must match.
type condition struct {
	claim   string
	literal string         // JSON of true, false or a whole number; "" with a pattern
	pattern *regexp.Regexp // of a text
}

// Grant is what a rule gives.
type Grant struct {
	Rule     int // its number, from 0
	AgentID  string
	TTL      int64 // seconds
	Register bool
}

// Refusal says why claims give no agent. It names claims and rules, and no value of the token.
type Refusal struct{ Message string }

func (e *Refusal) Error() string { return e.Message }

// HavePersons reports whether a rule is for persons.
func (r *Rules) HavePersons() bool {
	return slices.ContainsFunc(r.rules, func(r rule) bool { return r.person })
}

// String is the rules as canonical JSON (RFC 8785), all members with their defaults, and person
// where it is true.
func (r *Rules) String() string { return r.text }

// MarshalJSON writes String.
func (r *Rules) MarshalJSON() ([]byte, error) { return []byte(r.text), nil }

var _ json.Marshaler = (*Rules)(nil)

// Match returns what the first rule that matches gives to the claims of a workload's token, or
// of an identity assertion of a person. The error is a *Refusal.
func (r *Rules) Match(claims idtoken.Claims, person bool) (Grant, error) {
	for i, rule := range r.rules {
		if rule.person != person || !rule.matches(claims) {
			continue
		}
		agent, err := rule.agent.fill(claims)
		if err != nil {
			return Grant{}, err
		}
		return Grant{i, agent, rule.ttl, rule.register}, nil
	}
	return Grant{}, &Refusal{"the assertion matches no rule of the federation"}
}

func (r rule) matches(claims idtoken.Claims) bool {
	for _, c := range r.match {
		if !c.matches(claims) {
			return false
		}
	}
	return true
}
