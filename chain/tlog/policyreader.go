package tlog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxPolicy bounds a policy, in bytes: thousands of lines.
const maxPolicy = 1 << 20

// ParsePolicy reads a policy. Errors name the line, and wrap ErrMalformed.
func ParsePolicy(text []byte) (*Policy, error) {
	p, err := parsePolicy(text, false)
	if err == nil && p.quorum == "" {
		err = fmt.Errorf("%w: policy: no line says what the quorum is", ErrMalformed)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// ParseLogs reads the logs of a policy that may lack a quorum, of which there must be one at least.
// Where nobody asks for a quorum, a key may be that of several logs of different names, as both
// logs of a company have one; a policy forbids that. Errors are as those of ParsePolicy.
func ParseLogs(text []byte) ([]PolicyLog, error) {
	p, err := parsePolicy(text, true)
	if err == nil && len(p.Logs) == 0 {
		err = fmt.Errorf("%w: policy: no line names a log", ErrMalformed)
	}
	if err != nil {
		return nil, err
	}
	return p.Logs, nil
}

func parsePolicy(text []byte, sharedKeys bool) (*Policy, error) {
	if len(text) > maxPolicy {
		return nil, fmt.Errorf("%w: policy: it is longer than %d bytes", ErrMalformed, maxPolicy)
	}
	r := policyReader{policy: new(Policy), sharedKeys: sharedKeys, taken: map[string]bool{noQuorum: true}}
	for number, rest := 1, string(text); rest != ""; number++ {
		line, after, ended := strings.Cut(rest, "\n")
		rest = after
		err := r.line(line)
		if err == nil && !ended {
			err = errors.New("it does not end in a line break")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: policy: line %d: %w", ErrMalformed, number, err)
		}
	}
	return r.policy, nil
}

// policyReader is a policy while it is read.
type policyReader struct {
	policy     *Policy
	sharedKeys bool // whether logs of different names may have one key
	// by each name that is defined: whether it cannot become a member of a group any more
	taken map[string]bool
}

func (r *policyReader) line(line string) error {
	if i := strings.IndexFunc(line, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }); i >= 0 {
		return fmt.Errorf("it has a control character at byte %d", i+1)
	}
	items := strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '\t' })
	if len(items) == 0 || items[0][0] == '#' {
		return nil
	}
	switch keyword, items := items[0], items[1:]; keyword {
	case "log":
		return r.log(items)
	case "witness":
		return r.witness(items)
	case "group":
		return r.group(items)
	case "quorum":
		return r.quorum(items)
	default:
		return fmt.Errorf("want log, witness, group or quorum, not %q", keyword)
	}
}

func (r *policyReader) log(items []string) error {
	if len(items) < 1 || len(items) > 2 {
		return errors.New("want log <vkey> [<url>]")
	}
	key, err := ParseVKey(items[0])
	switch {
	case err != nil:
		return err
	case key.Type != TypeEd25519:
		return fmt.Errorf("the key of log %q is a cosigner's", key.Name)
	case slices.ContainsFunc(r.policy.Logs, func(l PolicyLog) bool {
		return l.Key.Public.Equal(key.Public) && !(r.sharedKeys && l.Key.Name != key.Name)
	}):
		return fmt.Errorf("the key of log %q stands in a line before", key.Name)
	}
	r.policy.Logs = append(r.policy.Logs, PolicyLog{key, strings.Join(items[1:], "")})
	return nil
}

func (r *policyReader) witness(items []string) error {
	if len(items) < 2 || len(items) > 3 {
		return errors.New("want witness <name> <vkey> [<url>]")
	}
	key, err := ParseVKey(items[1])
	switch {
	case err != nil:
		return err
	case key.Type != TypeCosignature:
		return fmt.Errorf("the key of witness %q is no cosigner's", items[0])
	case slices.ContainsFunc(r.policy.Witnesses, func(w PolicyWitness) bool { return w.Key.Public.Equal(key.Public) }):
		return fmt.Errorf("the key of witness %q stands in a line before", items[0])
	}
	r.policy.Witnesses = append(r.policy.Witnesses, PolicyWitness{items[0], key, strings.Join(items[2:], "")})
	return r.define(items[0])
}

func (r *policyReader) group(items []string) error {
	if len(items) < 3 {
		return errors.New("want group <name> all|any|<k> <member>…")
	}
	g := group{name: items[0], members: items[2:]}
	switch k, ok := ParseDecimal(items[1]); {
	case items[1] == "all":
		g.k = len(g.members)
	case items[1] == "any":
		g.k = 1
	case !ok || k < 1 || k > int64(len(g.members)):
		return fmt.Errorf("of %d members, %q cannot be asked for", len(g.members), items[1])
	default:
		g.k = int(k)
	}
	for _, name := range g.members {
		taken, defined := r.taken[name]
		switch {
		case !defined:
			return fmt.Errorf("no line before defines %q", name)
		case taken:
			return fmt.Errorf("%q is a member of a group already, or never can be", name)
		}
		r.taken[name] = true
	}
	r.policy.groups = append(r.policy.groups, g)
	return r.define(g.name)
}

func (r *policyReader) quorum(items []string) error {
	if len(items) != 1 {
		return errors.New("want quorum <name>|none")
	}
	if r.policy.quorum != "" {
		return errors.New("a line before says what the quorum is")
	}
	if _, defined := r.taken[items[0]]; !defined {
		return fmt.Errorf("no line before defines %q", items[0])
	}
	r.policy.quorum = items[0]
	return nil
}

// define gives a witness or a group its name.
func (r *policyReader) define(name string) error {
	if _, defined := r.taken[name]; defined {
		return fmt.Errorf("%q is defined already", name)
	}
	r.taken[name] = false
	return nil
}
