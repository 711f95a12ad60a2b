package evidence

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"attestd/chain"
	"attestd/chain/decision"
	"attestd/crypto/strictjson"
	"attestd/internal/lazyregexp"
	"attestd/internal/printable"
)

// Policies has the control records of the policies that were in force at a decision.
type Policies struct{ Entries []Entry }

// PolicySet is all policies that a company had after one change of them. It MUST NOT be changed.
type PolicySet struct {
	Revision int64
	Hash     string            // see decision.HashSet
	Texts    map[string]string // in Cedar, by the policy's ID
}

// Decider makes decisions again. Policies are written in Cedar, which this package cannot evaluate.
type Decider interface {
	// Decide decides on what a record says, by the policies that were in force. object is the
	// payload object of the record, which holds a decision. What it allows with an approval is
	// allowed where the policies ask for one. Of the result, verdict, by, errors and code count.
	Decide(set *PolicySet, object []byte) (decision.Decision, error)
}

// Decisions says how many decisions a file has, and how many of them were made again.
type Decisions struct {
	Recorded int64 `json:"recorded"`
	Again    int64 `json:"again"` // with the same result
}

const (
	aboutPolicies = "policies" // subject of their control records
	policyPut     = "policy.put"
	policyDeleted = "policy.deleted"

	maxChanges     = 10_000  // that a checker remembers of a report
	maxChangeBytes = 8 << 20 // of them

	// How far the times of the two logs may be apart: servers that share them have clocks of their
	// own.
	policyLeeway = 5 * time.Second
)

var (
	policyIDForm = lazyregexp.New(`^[A-Za-z0-9._-]{1,64}$`)
	sha256Form   = lazyregexp.New(`^[0-9a-f]{64}$`)
)

// policyChange is a control record about a policy.
type policyChange struct {
	index, revision int64
	timestamp       string
	policyID, text  string
	deleted         bool
	set             string // hash of the set after it
}

// readPolicyChange reads a control record whose subject is the policies.
func readPolicyChange(e *event) (p policyChange, err error) {
	p = policyChange{index: e.index, timestamp: e.timestamp, deleted: e.action == policyDeleted}
	f, sum := new(form), ""
	err = strictjson.EachMember(e.payload, maxDepth, func(name, src []byte) {
		v := value{f, string(name), src}
		switch string(name) {
		case "policyId":
			p.policyID = v.like(policyIDForm, "the ID of a policy")
		case "revision":
			p.revision = v.number()
		case "set":
			p.set = v.like(sha256Form, "a SHA-256")
		case "cedar":
			p.text = v.text()
		case "sha256":
			sum = v.text()
		}
	})
	switch {
	case err != nil:
	case f.err != nil:
		err = f.err
	case p.policyID == "" || p.revision == 0 || p.set == "":
		err = errors.New("it does not name the policy, the revision and the set")
	case !p.deleted && sum != decision.HashText(p.text):
		err = errors.New("sha256 is not that of the policy's text")
	}
	return p, err
}

// policyLog is the changes of a company's policies that a file has, in their order.
type policyLog struct {
	begun   bool // the first changes are what the policies before them were made of
	broken  bool // an operator accepted policies that no control record has put
	changes []policyChange
	bytes   int
	lost    bool // there were more than a checker remembers
	last    *PolicySet
}

// add adds the next change.
func (p *policyLog) add(e *event) error {
	isChange := e.action == policyPut || e.action == policyDeleted
	if p.broken = p.broken || !isChange; p.broken {
		return nil
	}
	change, err := readPolicyChange(e)
	if n := len(p.changes); err == nil && n > 0 && change.revision <= p.changes[n-1].revision {
		err = fmt.Errorf("its revision %d is not above that of the change before it", change.revision)
	}
	if err != nil {
		return fail(BadDecision, "control record %d: %v", e.index, err)
	}
	p.changes = append(p.changes, change)
	return nil
}

// addLine is add for a record of a report, which is as long as it may be.
func (p *policyLog) addLine(e *event) error {
	p.bytes += len(e.payload)
	if p.lost = p.lost || len(p.changes) == maxChanges || p.bytes > maxChangeBytes; p.lost {
		p.changes = nil
		return nil
	}
	return p.add(e)
}

// errNotHeld says why a file does not have the policies by which a decision was made. It is no
// failure.
type errNotHeld struct{ why string }

func (e *errNotHeld) Error() string { return e.why }

// set returns the policies by which a decision was made that was recorded at a time; *errNotHeld.
func (p *policyLog) set(d *decision.Decision, timestamp string) (*PolicySet, error) {
	if p.lost {
		return nil, &errNotHeld{"there are more changes of policies here than this checker remembers"}
	}
	if p.broken {
		return nil, &errNotHeld{"policies were altered past the control log, and accepted as they were"}
	}
	next := sort.Search(len(p.changes), func(i int) bool { return p.changes[i].revision > d.Revision })
	if next < len(p.changes) && isWellBefore(p.changes[next].timestamp, timestamp) {
		return nil, fmt.Errorf("it was made by revision %d of the policies, which had ended with control record %d", d.Revision, p.changes[next].index)
	}
	if d.Revision > 0 && !p.begun {
		return nil, &errNotHeld{fmt.Sprintf("the file does not have the policies of revision %d", d.Revision)}
	}
	if d.Revision > 0 {
		if next == 0 || p.changes[next-1].revision != d.Revision {
			return nil, fmt.Errorf("no control record here made revision %d of the policies", d.Revision)
		}
		if made := &p.changes[next-1]; isWellBefore(timestamp, made.timestamp) {
			return nil, fmt.Errorf("it was made by revision %d of the policies, which began later, with control record %d", d.Revision, made.index)
		}
	}
	if p.last == nil || p.last.Revision != d.Revision {
		p.last = replay(p.changes[:next], d.Revision)
	}
	if p.last.Hash != d.Policies || d.Revision > 0 && p.changes[next-1].set != d.Policies {
		return nil, fmt.Errorf("the control records here make the set of policies %s, and it was made by the set %s", p.last.Hash, d.Policies)
	}
	return p.last, nil
}

// replay returns what changes leave.
func replay(changes []policyChange, revision int64) *PolicySet {
	s := &PolicySet{Revision: revision, Texts: make(map[string]string)}
	for i := range changes {
		if c := &changes[i]; c.deleted {
			delete(s.Texts, c.policyID)
		} else {
			s.Texts[c.policyID] = c.text
		}
	}
	sums := maps.Clone(s.Texts)
	for id, text := range sums {
		sums[id] = decision.HashText(text)
	}
	s.Hash = decision.HashSet(sums)
	return s
}

// isWellBefore reports whether one timestamp is before another by more than the clocks of servers
// may differ.
func isWellBefore(a, b string) bool {
	first, err1 := time.Parse(time.RFC3339, a)
	second, err2 := time.Parse(time.RFC3339, b)
	return err1 == nil && err2 == nil && second.Sub(first) > policyLeeway
}

// policies checks the control records of policies that a file has.
func (c *checker) policies() error {
	p := c.file.Policies
	if p == nil {
		return nil
	}
	events, err := c.events(BadDecision, p.Entries, func(e event) bool {
		return e.subject == aboutPolicies && (e.action == policyPut || e.action == policyDeleted)
	})
	if err != nil {
		return err
	}
	c.policyLog.begun = true
	for i := range events {
		if err := c.policyLog.add(&events[i]); err != nil {
			return err
		}
	}
	return nil
}

// recordDecision checks the decision of the file's record.
func (c *checker) recordDecision() error {
	if c.file.Policies != nil && c.content.decision == nil {
		return fail(BadDecision, "policies are there, and the record has no decision")
	}
	if c.file.Passports != nil && (c.content.decision == nil || c.content.decision.Passport == "") {
		return fail(BadDecision, "passports are there, and the record has no decision that names one")
	}
	if err := c.policies(); err != nil {
		return err
	}
	if err := c.readPassports(); err != nil {
		return err
	}
	if err := c.decided(&c.file.Record, &c.content); err != nil {
		return err
	}
	c.checkedDecisions()
	return nil
}

// decisions is what is known of the decisions of a file.
type decisions struct {
	Decisions
	proven int64 // whose policies are here
	last   string
	// why decisions were not made again, with how many
	why map[string]int64
}

// maxReasons bounds the reasons that are told apart.
const maxReasons = 10

func (d *decisions) notAgain(why string) {
	if d.why == nil {
		d.why = make(map[string]int64)
	}
	if _, is := d.why[why]; !is && len(d.why) >= maxReasons {
		why = "for other reasons"
	}
	d.why[why]++
}

// decided checks the decision of a record whose hash was checked: that the control records make the
// set of policies that it names, and, with a Decider, that they decide the same again.
func (c *checker) decided(r *chain.Record, in *content) error {
	d := in.decision
	if d == nil {
		return nil
	}
	c.decisions.Recorded++
	if err := c.byPassport(r, in); err != nil {
		return err
	}
	set, err := c.policyLog.set(d, r.Timestamp)
	if missing := (*errNotHeld)(nil); errors.As(err, &missing) {
		c.decisions.notAgain(missing.why)
		return nil
	}
	if err != nil {
		return fail(BadDecision, "the decision of record %d: %v", r.Index, err)
	}
	c.decisions.proven++
	c.decisions.last = fmt.Sprintf("the %s in force, revision %d: %s", printable.Count(len(set.Texts), "policy"), d.Revision, said(d))
	switch {
	case !followsFromPolicies(d.Code):
		c.decisions.notAgain(fmt.Sprintf("denied with %s, which does not follow from policies", quoted(d.Code)))
		return nil
	case c.trust.Decider == nil:
		c.decisions.notAgain("the rules were not evaluated here")
		return nil
	}
	again, err := c.trust.Decider.Decide(set, r.Payload)
	if err != nil {
		return fail(BadDecision, "the decision of record %d cannot be made again: %v", r.Index, err)
	}
	if again.Verdict != d.Verdict || again.Code != d.Code || !slices.Equal(again.By, d.By) || !slices.Equal(again.Errors, d.Errors) {
		return fail(BadDecision, "the decision of record %d says %s, and the policies in force decide %s", r.Index, said(d), said(&again))
	}
	c.decisions.Again++
	return nil
}

// followsFromPolicies reports whether the policies, and what the record says, give a code. Others
// are those of the verification of a passport.
func followsFromPolicies(code string) bool {
	return code == "" || code == decision.PolicyDenied || code == decision.Failed || code == decision.DetailsDenied
}

// said returns a decision in words: deny by no-force.
func said(d *decision.Decision) string {
	text := d.Verdict
	if len(d.By) > 0 {
		text += " by " + shown(strings.Join(d.By, ", "))
	}
	if len(d.Errors) > 0 {
		text += "; with errors: " + shown(strings.Join(d.Errors, ", "))
	}
	if d.Code != "" && d.Code != decision.PolicyDenied {
		text += " (" + d.Code + ")"
	}
	return text
}

// checkedDecisions says what was found of the decisions of a file.
func (c *checker) checkedDecisions() {
	d := &c.decisions
	switch {
	case d.Recorded == 0:
		return
	case d.Recorded == 1 && d.Again == 1:
		c.addChecked("decided again by %s", d.last)
		return
	case d.Recorded == 1 && d.proven == 1:
		c.addChecked("decided by %s", d.last)
	case d.Again > 0:
		c.addChecked("%d of %s made again by the policies in force then, with the same verdicts", d.Again, printable.Count(d.Recorded, "decision"))
	}
	for _, why := range slices.Sorted(maps.Keys(d.why)) {
		if d.Recorded == 1 {
			c.addChecked("not decided again: %s", why)
		} else {
			c.addChecked("%d of %s not decided again: %s", d.why[why], printable.Count(d.Recorded, "decision"), why)
		}
	}
}
