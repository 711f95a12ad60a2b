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

//go:embed ask.cedar
var ask string

var id = regexp.MustCompile(`(?m)^@id\("([^"]+)"\)`)

// Starter returns the starter set for coding agents, in the order of its file. All of it together
// permits whatever no rule forbids, so it replaces no permit of a company that has others.
func Starter() []Policy { return parse(starter) }

// Ask returns the rules that have a person approve pushes, deletions, deployments and payments, in
// the order of their file. They permit nothing.
func Ask() []Policy { return parse(ask) }

// parse returns the policies of a file.
func parse(text string) []Policy {
	places := id.FindAllStringSubmatchIndex(text, -1)
	set := make([]Policy, len(places))
	for i, at := range places {
		end := len(text)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		set[i] = Policy{ID: text[at[2]:at[3]], Text: strings.TrimSpace(text[at[0]:end]) + "\n"}
	}
	return set
}
