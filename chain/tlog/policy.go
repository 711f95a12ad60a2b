package tlog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Policy says which checkpoints are trusted: see the package comment.
type Policy struct {
	Logs      []PolicyLog
	Witnesses []PolicyWitness
	groups    []group // each after the groups that are its members
	quorum    string  // a witness, a group or noQuorum; "" when the policy has no quorum line
}

// PolicyLog is one key of a log whose checkpoints are trusted.
type PolicyLog struct {
	Key VKey   // its name is the log's origin
	URL string // "" when the line has none
}

// PolicyWitness is a witness of a policy.
type PolicyWitness struct {
	Name string // only used within the policy
	Key  VKey
	URL  string // "" when the line has none
}

// group has cosigned when k of its members have: witnesses or groups.
type group struct {
	name    string
	k       int
	members []string
}

// noQuorum is the quorum that demands no witness.
const noQuorum = "none"

// Witnessed is a checkpoint, and what a policy says of its cosignatures.
type Witnessed struct {
	Checkpoint
	By     map[string]Cosignature // the newest of each witness, by the witness's name in the policy
	Quorum bool                   // whether these witnesses are a quorum
}

// Open parses and verifies a signed checkpoint. One of the policy's logs MUST have signed it. A
// signature that claims to be by one of the policy's keys and does not verify is an error. Open
// accepts cosignatures dated in the future; the caller decides about those. Errors wrap
// ErrMalformed or ErrSignature.
func (p *Policy) Open(signed []byte) (Witnessed, error) {
	logs := make([]VKey, len(p.Logs))
	for i, l := range p.Logs {
		logs[i] = l.Key
	}
	c, n, err := OpenCheckpoint(signed, logs...)
	if err != nil {
		return Witnessed{}, err
	}
	w := Witnessed{Checkpoint: c, By: make(map[string]Cosignature)}
	for _, witness := range p.Witnesses {
		list, err := c.cosignatures(n.UnverifiedSigs, []VKey{witness.Key})
		if err != nil {
			return Witnessed{}, err
		}
		if len(list) > 0 {
			w.By[witness.Name] = slices.MaxFunc(list, func(a, b Cosignature) int { return cmp.Compare(a.Time, b.Time) })
		}
	}
	w.Quorum = p.isQuorum(w.By)
	return w, nil
}

// isQuorum reports whether the witnesses that have cosigned are a quorum.
func (p *Policy) isQuorum(by map[string]Cosignature) bool {
	cosigned := map[string]bool{noQuorum: true}
	for name := range by {
		cosigned[name] = true
	}
	for _, g := range p.groups {
		n := 0
		for _, name := range g.members {
			if cosigned[name] {
				n++
			}
		}
		cosigned[g.name] = n >= g.k
	}
	return cosigned[p.quorum]
}

// maxPolicy bounds a policy, in bytes. Thousands of lines fit.
const maxPolicy = 1 << 20

// ParsePolicy parses a policy. Errors name the line, and wrap ErrMalformed.
func ParsePolicy(text []byte) (*Policy, error) {
	p, err := parsePolicy(text, false)
	if err == nil && p.quorum == "" {
		err = fmt.Errorf("%w policy: it has no quorum line", ErrMalformed)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// ParseLogs parses a policy of which only the logs are used. It needs no quorum line, and at least
// one log line. Unlike in ParsePolicy, logs of different names may share a key, as both logs of a
// company do. Errors name the line, and wrap ErrMalformed.
func ParseLogs(text []byte) ([]PolicyLog, error) {
	p, err := parsePolicy(text, true)
	if err == nil && len(p.Logs) == 0 {
		err = fmt.Errorf("%w policy: it has no log line", ErrMalformed)
	}
	if err != nil {
		return nil, err
	}
	return p.Logs, nil
}

func parsePolicy(text []byte, sharedKeys bool) (*Policy, error) {
	if len(text) > maxPolicy {
		return nil, fmt.Errorf("%w policy: it has more than %d bytes", ErrMalformed, maxPolicy)
	}
	r := policyReader{policy: new(Policy), sharedKeys: sharedKeys, grouped: map[string]bool{noQuorum: true}}
	for number, rest := 1, string(text); rest != ""; number++ {
		line, after, ended := strings.Cut(rest, "\n")
		rest = after
		err := r.line(line)
		if err == nil && !ended {
			err = errors.New("the line break at its end is missing")
		}
		if err != nil {
			return nil, fmt.Errorf("%w policy: line %d: %w", ErrMalformed, number, err)
		}
	}
	return r.policy, nil
}

// policyReader builds a policy line by line.
type policyReader struct {
	policy     *Policy
	sharedKeys bool            // whether logs of different names may share a key
	grouped    map[string]bool // by defined name: whether it can no longer join a group
}

// line parses one line, without its line break.
func (r *policyReader) line(line string) error {
	if i := strings.IndexFunc(line, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }); i >= 0 {
		return fmt.Errorf("control character at byte %d", i+1)
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
		return fmt.Errorf("log %q has the key of a witness", key.Name)
	case slices.ContainsFunc(r.policy.Logs, func(l PolicyLog) bool {
		return l.Key.Public.Equal(key.Public) && !(r.sharedKeys && l.Key.Name != key.Name)
	}):
		return fmt.Errorf("the key of log %q is in an earlier line", key.Name)
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
		return fmt.Errorf("witness %q has the key of a log", items[0])
	case slices.ContainsFunc(r.policy.Witnesses, func(w PolicyWitness) bool { return w.Key.Public.Equal(key.Public) }):
		return fmt.Errorf("the key of witness %q is in an earlier line", items[0])
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
		return fmt.Errorf("want all, any or a number from 1 to %d, not %q", len(g.members), items[1])
	default:
		g.k = int(k)
	}
	for _, name := range g.members {
		grouped, defined := r.grouped[name]
		switch {
		case !defined:
			return fmt.Errorf("no earlier line defines %q", name)
		case name == noQuorum:
			return fmt.Errorf("%q cannot be a member of a group", name)
		case grouped:
			return fmt.Errorf("%q is already a member of a group", name)
		}
		r.grouped[name] = true
	}
	r.policy.groups = append(r.policy.groups, g)
	return r.define(g.name)
}

func (r *policyReader) quorum(items []string) error {
	if len(items) != 1 {
		return errors.New("want quorum <name>|none")
	}
	if r.policy.quorum != "" {
		return errors.New("an earlier line is a quorum line too")
	}
	if _, defined := r.grouped[items[0]]; !defined {
		return fmt.Errorf("no earlier line defines %q", items[0])
	}
	r.policy.quorum = items[0]
	return nil
}

// define adds the name of a witness or a group.
func (r *policyReader) define(name string) error {
	if _, defined := r.grouped[name]; defined {
		return fmt.Errorf("%q is already defined", name)
	}
	r.grouped[name] = false
	return nil
}
