package decide

import (
	"fmt"
	"iter"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"attestd/chain/decision"
)

// Policy is a text in Cedar, of one policy or several, under its ID.
type Policy struct{ ID, Text string }

// The limits of policies. Beyond MaxDepth the parser's recursion ends the process, and beyond
// maxChain that of the evaluation takes megabytes.
const (
	MaxText     = 64 << 10  // bytes of one text
	MaxDepth    = 64        // open brackets, and conditionals in them
	MaxPolicies = 1_000     // of a set, counted singly
	MaxSet      = 256 << 10 // bytes of all texts of a set
	maxChain    = 1_000     // operators that one expression and those around it have
)

// The codes of a PolicyError.
const (
	Invalid     = "POLICY_INVALID"
	UnknownName = "POLICY_UNKNOWN_NAME"
)

// PolicyError says why a policy is refused, and where. Line and Column count from 1, columns in
// characters; both are 0 where the fault is not in the text.
type PolicyError struct {
	Code         string
	OfID         bool // the fault is in the ID
	Line, Column int
	Message      string
}

func (e *PolicyError) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// Check reports whether a policy can be put into a set. With force, it may name entity types,
// actions and members that do not exist. The error is a *PolicyError.
func Check(p Policy, force bool) error {
	list, err := parse(p)
	if err != nil || force {
		return err
	}
	for _, one := range list {
		if name, message := unknownName((*ast.Policy)(one.AST())); message != "" {
			return p.at(one, name, &PolicyError{Code: UnknownName, Message: message})
		}
	}
	return nil
}

// parse checks everything but names.
func parse(p Policy) (cedar.PolicyList, error) {
	if !decision.IsID(p.ID) {
		return nil, &PolicyError{Code: Invalid, OfID: true, Message: "a policy ID has 1 to 64 letters, digits, dots, dashes and underscores"}
	}
	if len(p.Text) > MaxText {
		return nil, &PolicyError{Code: Invalid, Message: fmt.Sprintf("the text has more than %d bytes", MaxText)}
	}
	if err := p.bounded(); err != nil {
		return nil, err
	}
	var list cedar.PolicyList
	if err := list.UnmarshalCedar([]byte(p.Text)); err != nil {
		return nil, p.syntaxError(err)
	}
	if len(list) == 0 {
		return nil, &PolicyError{Code: Invalid, Line: 1, Column: 1, Message: "the text has no policy"}
	}
	for _, one := range list {
		if _, name, err := askOf(one); err != nil {
			return nil, p.at(one, name, &PolicyError{Code: Invalid, Message: err.Error()})
		}
	}
	return list, nil
}

// token is a token of Cedar. Strings have their quotation marks.
type token struct {
	text                 string
	offset, line, column int
}

// tokens scans as cedar-go does. What is no token of Cedar comes out as one of some kind, since the
// parser refuses the text then.
func (p Policy) tokens() iter.Seq[token] {
	return func(yield func(token) bool) {
		text, line, start := p.Text, 1, 0 // start of the line
		for i := 0; i < len(text); {
			end := i + 1
			switch c := text[i]; {
			case c == '\n':
				line, start, i = line+1, end, end
				continue
			case c == ' ' || c == '\t' || c == '\r':
				i = end
				continue
			case strings.HasPrefix(text[i:], "//"):
				n := strings.IndexByte(text[i:], '\n')
				if n < 0 {
					return
				}
				i += n
				continue
			case strings.HasPrefix(text[i:], "/*"):
				n := strings.Index(text[i+2:], "*/")
				if n < 0 {
					return
				}
				end = i + 2 + n + 2
				if last := strings.LastIndexByte(text[i:end], '\n'); last >= 0 {
					line += strings.Count(text[i:end], "\n")
					start = i + last + 1
				}
				i = end
				continue
			case c == '"':
				for end < len(text) && text[end] != '"' && text[end] != '\n' {
					if text[end] == '\\' {
						end++
					}
					end++
				}
				end = min(end+1, len(text))
			case isIdent(c):
				for end < len(text) && isIdent(text[end]) {
					end++
				}
			case len(text) > end && isOperator(text[i:end+1]):
				end++
			}
			if !yield(token{text[i:end], i, line, utf8.RuneCountInString(text[start:i]) + 1}) {
				return
			}
			i = end
		}
	}
}

func isIdent(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= utf8.RuneSelf
}

func isOperator(two string) bool {
	switch two {
	case "::", "!=", "<=", ">=", "==", "||", "&&":
		return true
	}
	return false
}

// bounded reports whether the tree of each expression is so flat that parsing and evaluation may
// recurse over it.
func (p Policy) bounded() error {
	type level struct{ operators, ifs int }
	levels := []level{{}}
	depth, chain := 0, 0
	for t := range p.tokens() {
		top := &levels[len(levels)-1]
		switch t.text {
		case "(", "[", "{":
			levels = append(levels, level{})
			depth++
		case ")", "]", "}":
			if len(levels) == 1 {
				continue // the parser refuses it
			}
			depth -= 1 + top.ifs
			chain -= top.operators
			levels = levels[:len(levels)-1]
			levels[len(levels)-1].operators++ // it may be an access: a["b"]["c"]
			chain++
		case "if": // the parser recurses for each part of a conditional
			top.ifs++
			depth++
		case ",", ";":
			depth -= top.ifs
			chain -= top.operators
			*top = level{}
		case "!", "-", "+", "*", ".", "&&", "||", "has", "when", "unless":
			top.operators++
			chain++
		}
		switch {
		case depth > MaxDepth:
			return &PolicyError{Code: Invalid, Line: t.line, Column: t.column, Message: fmt.Sprintf("brackets and conditionals nest deeper than %d", MaxDepth)}
		case chain > maxChain:
			return &PolicyError{Code: Invalid, Line: t.line, Column: t.column, Message: fmt.Sprintf("an expression has more than %d operators", maxChain)}
		}
	}
	return nil
}

var (
	positionInError = regexp.MustCompile(`<input>:([0-9]+):([0-9]+)(?: ("(?:[^"\\]|\\.)*"))?: (.*)`)
	lineEnds        = strings.NewReplacer("\n", " ", "\r", " ")
)

// syntaxError places an error of cedar-go. Its parser mostly names the place after the token at
// fault, and its scanner the one before.
func (p Policy) syntaxError(err error) error {
	const most = 300
	e := &PolicyError{Code: Invalid, Line: 1, Column: 1, Message: err.Error()}
	if m := positionInError.FindStringSubmatch(lineEnds.Replace(err.Error())); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		e.Column, _ = strconv.Atoi(m[2])
		e.Message = m[4]
		if e.Line == 0 { // the scanner was in no token yet
			e.Line, e.Column = 1, 1
		}
		ofParser, atEnd := m[3] != "", m[3] == `""`
		if ofParser && !atEnd && !strings.HasPrefix(e.Message, "got ") || e.Message == "literal not terminated" {
			p.correct(e, ofParser)
		}
	}
	if len(e.Message) > most {
		e.Message = strings.ToValidUTF8(e.Message[:most], "") + "…"
	}
	return e
}

// correct moves the place of an error to the token before it, or to the next string.
func (p Policy) correct(e *PolicyError, before bool) {
	var last token
	for t := range p.tokens() {
		reached := t.line > e.Line || t.line == e.Line && t.column >= e.Column
		switch {
		case reached && before && last.line > 0:
			e.Line, e.Column = last.line, last.column
			return
		case reached && !before && t.text[0] == '"':
			e.Line, e.Column = t.line, t.column
			return
		}
		last = t
	}
}

// at places an error at the first token of a policy that is name, or at its begin.
func (p Policy) at(one *cedar.Policy, name string, e *PolicyError) error {
	begin := one.Position()
	e.Line, e.Column = begin.Line, begin.Column
	for t := range p.tokens() {
		if t.offset >= begin.Offset && (t.text == name || t.text == strconv.Quote(name)) {
			e.Line, e.Column = t.line, t.column
			break
		}
	}
	return e
}

// Ask says who may approve a call whose verdict is ask.
type Ask struct {
	Approvers []string      // groups of people, each of which must approve; none for all approvers
	Quorum    int           // how many must approve
	Within    time.Duration // until when; 0 where the policy does not say
}

const (
	maxQuorum = 100
	maxWithin = 24 * time.Hour
)

// askOf reads the annotations of a permit. name is the one at fault.
func askOf(p *cedar.Policy) (ask Ask, name string, err error) {
	ask.Quorum = 1
	notes := p.Annotations()
	if v, has := notes["approvers"]; has {
		if ask.Approvers = []string{string(v)}; !decision.IsID(string(v)) {
			return ask, "approvers", fmt.Errorf("@approvers names one group of people")
		}
	}
	if v, has := notes["quorum"]; has {
		ask.Quorum, err = strconv.Atoi(string(v))
		if err != nil || ask.Quorum < 1 || ask.Quorum > maxQuorum || strconv.Itoa(ask.Quorum) != string(v) {
			return ask, "quorum", fmt.Errorf("@quorum is a number from 1 to %d", maxQuorum)
		}
	}
	if v, has := notes["within"]; has {
		ask.Within, err = time.ParseDuration(string(v))
		if err != nil || ask.Within < time.Second || ask.Within > maxWithin || ask.Within%time.Second != 0 {
			return ask, "within", fmt.Errorf(`@within is a duration from "1s" to "24h"`)
		}
	}
	return ask, "", nil
}

// The names that exist.
var (
	principalTypes = set("Agent", "Group", "Company")
	resourceTypes  = set("Tool", "Server", "ActionType", "Url", "Audience")
	actionTypes    = set("Action")
	actions        = set("call", "attest", "http", "token", "any")
	urlMembers     = set("scheme", "host", "path", "method")
	contextMembers = set("arguments", "door", "source", "session", "delegation", "person", "scopes", "signed", "time",
		"approved", "dropped", "clean", "hosts", "outside", "programs", "words", "writesOutside", "keyFile", "unclear")
)

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, name := range names {
		m[name] = true
	}
	return m
}

// names looks for names that do not exist.
type names struct{ name, message string }

func (n *names) unknown(name, format string, args ...any) {
	if n.message == "" {
		n.name, n.message = name, fmt.Sprintf(format, args...)
	}
}

// unknownName returns the first name in a policy that does not exist, and what to say of it.
func unknownName(p *ast.Policy) (name, message string) {
	var n names
	n.scope("principal", p.Principal, principalTypes)
	n.scope("action", p.Action, actionTypes)
	n.scope("resource", p.Resource, resourceTypes)
	for _, c := range p.Conditions {
		ast.Inspect(ast.NewNode(c.Body), func(node ast.IsNode) bool {
			n.node(node)
			return true
		})
	}
	return n.name, n.message
}

func (n *names) scope(of string, scope ast.IsScopeNode, types map[string]bool) {
	switch s := scope.(type) {
	case ast.ScopeTypeEq:
		n.entity(of, s.Entity, types)
	case ast.ScopeTypeIn:
		n.entity(of, s.Entity, types)
	case ast.ScopeTypeInSet:
		for _, e := range s.Entities {
			n.entity(of, e, types)
		}
	case ast.ScopeTypeIs:
		n.entityType(of, s.Type, types)
	case ast.ScopeTypeIsIn:
		n.entityType(of, s.Type, types)
		n.entity(of, s.Entity, types)
	}
}

func (n *names) entity(of string, e types.EntityUID, types map[string]bool) {
	n.entityType(of, e.Type, types)
	if e.Type == "Action" && !actions[string(e.ID)] {
		n.unknown(string(e.ID), "there is no action %q", e.ID)
	}
}

func (n *names) entityType(of string, t types.EntityType, types map[string]bool) {
	first, _, _ := strings.Cut(string(t), "::")
	switch {
	case types[string(t)]:
	case principalTypes[string(t)] || resourceTypes[string(t)] || actionTypes[string(t)]:
		n.unknown(first, "no %s is of the type %s", of, t)
	default:
		n.unknown(first, "there is no entity type %s", t)
	}
}

// anyType are the types that may stand in a condition.
var anyType = func() map[string]bool {
	all := map[string]bool{}
	for _, some := range []map[string]bool{principalTypes, resourceTypes, actionTypes} {
		maps.Copy(all, some)
	}
	return all
}()

func (n *names) node(node ast.IsNode) {
	switch v := node.(type) {
	case ast.NodeValue:
		if e, is := v.Value.(types.EntityUID); is {
			n.entity("entity", e, anyType)
		}
	case ast.NodeTypeIs:
		n.entityType("entity", v.EntityType, anyType)
	case ast.NodeTypeIsIn:
		n.entityType("entity", v.EntityType, anyType)
	case ast.NodeTypeAccess:
		n.member(v.Arg, string(v.Value))
	case ast.NodeTypeHas:
		n.member(v.Arg, string(v.Value))
	}
}

// member looks at the access to a member of a variable.
func (n *names) member(of ast.IsNode, name string) {
	variable, is := of.(ast.NodeTypeVariable)
	if !is {
		return
	}
	switch {
	case variable.Name == "context" && contextMembers[name] || variable.Name == "resource" && urlMembers[name]:
	default:
		n.unknown(name, "%s has no member %q", variable.Name, name)
	}
}
