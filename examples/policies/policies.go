// Package policies has the policies that a company can begin with.
package policies

import (
	_ "embed"
	"regexp"
	"strings"
)

// Policy is a text in Cedar under its ID, as decide.Policy.
type Policy struct{ ID, Text string }

//go:embed starter.cedar
var starter string

var id = regexp.MustCompile(`(?m)^@id\("([^"]+)"\)`)

// Starter returns the starter set for coding agents, in the order of its file. All of it together
// permits whatever no rule forbids, so it replaces no permit of a company that has others.
func Starter() []Policy {
	places := id.FindAllStringSubmatchIndex(starter, -1)
	set := make([]Policy, len(places))
	for i, at := range places {
		end := len(starter)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		set[i] = Policy{ID: starter[at[2]:at[3]], Text: strings.TrimSpace(starter[at[0]:end]) + "\n"}
	}
	return set
}
