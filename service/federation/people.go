package federation

import (
	"fmt"
	"slices"
	"strings"

	"attestd/chain/decision"
	"attestd/crypto/cred"
	"attestd/crypto/idtoken"
	"attestd/crypto/strictjson"
)

// PeopleRules are the rules by which the identity provider of a service signs people in. The first
// that matches the claims of an ID token decides; where none does, nobody is signed in. They are a
// list as that of [Rules], of other objects:
//
//	match      as of Rules, and a claim that is a list of texts matches where one of them does
//	companyId  the company
//	personId   makes the person at the first sign-in; {claim} is as in agentId. Absent makes nobody
//	roles      what the person is from each sign-in on; absent leaves the roles as they are
//	groups     the same of groups; "{claim}" stands for each text of the claim that matches
//
// A rule that matches email must match email_verified too, with true: elsewhere its holder may have
// chosen the address. One with nothing but a * in each value is refused.
type PeopleRules struct{ rules []personRule }

type personRule struct {
	match         []condition
	companyID     string
	person        template // without texts for none
	roles, groups []string // nil leaves them
}

// PersonGrant is what a rule gives.
type PersonGrant struct {
	Rule          int // its number, from 0
	CompanyID     string
	PersonID      string   // who is made; "" for nobody
	Roles, Groups []string // nil leaves them
}

const maxPersonGroups = 64

// peopleRoles are those of people.
var peopleRoles = []string{"admin", "approver", "reader"}

// ParsePeople reads rules. The error is an *Error.
func ParsePeople(text []byte) (*PeopleRules, error) {
	r := &PeopleRules{}
	err := eachRule(text, func(value []byte, at string) error {
		one, err := parsePersonRule(value, at)
		r.rules = append(r.rules, one)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

func parsePersonRule(value []byte, at string) (r personRule, err error) {
	members, err := membersOf(value, at, "match", "companyId", "personId", "roles", "groups")
	if err != nil {
		return r, err
	}
	matched, err := r.parseMatch(members["match"], at+"/match")
	if err != nil {
		return r, err
	}
	var is bool
	if r.companyID, is = strictjson.AsString(members["companyId"]); !is || cred.CheckSegment(r.companyID) != nil {
		return r, &Error{at + "/companyId", "must be the ID of a company"}
	}
	if id := members["personId"]; id != nil {
		text, is := strictjson.AsString(id)
		if !is {
			return r, &Error{at + "/personId", "must be a string"}
		}
		if r.person, err = newTemplate(text, aPerson, matched); err != nil {
			return r, &Error{at + "/personId", err.Error()}
		}
	}
	if roles := members["roles"]; roles != nil {
		r.roles, is = strictjson.AsStrings(roles)
		if !is || len(r.roles) == 0 || !areDistinct(r.roles) || slices.ContainsFunc(r.roles, func(role string) bool { return !slices.Contains(peopleRoles, role) }) {
			return r, &Error{at + "/roles", "must be one or more of admin, approver and reader"}
		}
	}
	if groups := members["groups"]; groups != nil {
		r.groups, is = strictjson.AsStrings(groups)
		if !is || len(r.groups) > maxPersonGroups || !areDistinct(r.groups) {
			return r, &Error{at + "/groups", fmt.Sprintf("must be at most %d different names", maxPersonGroups)}
		}
		r.groups = append([]string{}, r.groups...)
		for _, group := range r.groups {
			if claim, is := claimIn(group); is && !matched[claim] || !is && !decision.IsID(group) {
				return r, &Error{at + "/groups", "must be names of groups, or a claim of match in {}, so that the rule says what they can be"}
			}
		}
	}
	return r, nil
}

func (r *personRule) parseMatch(value []byte, at string) (matched map[string]bool, err error) {
	matched = map[string]bool{}
	restricted, verified := false, false
	r.match, err = parseConditions(value, at, func(claim string, value []byte) {
		matched[claim] = true
		text, is := strictjson.AsString(value)
		restricted = restricted || !is || text != "*"
		verified = verified || claim == "email_verified" && string(value) == "true"
	})
	switch {
	case err != nil:
		return nil, err
	case !restricted:
		return nil, &Error{at, "must match more than * : anyone with an account would be let in"}
	case matched["email"] && !verified:
		return nil, &Error{at, "must match email_verified, with true, where it matches email: elsewhere the holder of an account may have chosen the address"}
	}
	return matched, nil
}

// claimIn returns the claim that stands for groups.
func claimIn(group string) (claim string, is bool) {
	claim, is = strings.CutPrefix(group, "{")
	if is {
		claim, is = strings.CutSuffix(claim, "}")
	}
	return claim, is
}

func areDistinct(list []string) bool {
	return len(slices.Compact(slices.Sorted(slices.Values(list)))) == len(list)
}

// Match returns what the first rule that matches gives to the claims of an ID token. The error is a
// *Refusal.
func (r *PeopleRules) Match(claims idtoken.Claims) (PersonGrant, error) {
	for i, rule := range r.rules {
		if slices.ContainsFunc(rule.match, func(c condition) bool { return !c.matches(claims) && len(c.texts(claims)) == 0 }) {
			continue
		}
		g := PersonGrant{Rule: i, CompanyID: rule.companyID, Roles: rule.roles}
		var err error
		if len(rule.person.texts) > 0 {
			if g.PersonID, err = rule.person.fill(claims); err != nil {
				return PersonGrant{}, err
			}
		}
		g.Groups, err = rule.groupsOf(claims)
		return g, err
	}
	return PersonGrant{}, &Refusal{"no rule of this service admits the account"}
}

// texts are the texts of a list that match.
func (c condition) texts(claims idtoken.Claims) (found []string) {
	value, _ := claims.At(c.claim)
	list, is := strictjson.AsStrings(value)
	if !is || c.pattern == nil {
		return nil
	}
	for _, text := range list {
		if c.pattern.MatchString(text) {
			found = append(found, text)
		}
	}
	return found
}

// groupsOf returns the groups that a rule gives; nil leaves those that are there.
func (r *personRule) groupsOf(claims idtoken.Claims) (groups []string, err error) {
	if r.groups == nil {
		return nil, nil
	}
	groups = []string{}
	for _, group := range r.groups {
		claim, is := claimIn(group)
		if !is {
			groups = append(groups, group)
			continue
		}
		at := slices.IndexFunc(r.match, func(c condition) bool { return c.claim == claim })
		found := r.match[at].texts(claims)
		if value, _ := claims.At(claim); found == nil {
			text, _ := asText(value)
			found = []string{text}
		}
		for _, name := range found {
			if !decision.IsID(name) {
				return nil, &Refusal{"the claim " + claim + " names a group that is no name of one here: 1 to 64 letters, digits, dots, underscores and hyphens"}
			}
		}
		groups = append(groups, found...)
	}
	slices.Sort(groups)
	if groups = slices.Compact(groups); len(groups) > maxPersonGroups {
		return nil, &Refusal{fmt.Sprintf("the claims give more than %d groups: match fewer of them", maxPersonGroups)}
	}
	return groups, nil
}
