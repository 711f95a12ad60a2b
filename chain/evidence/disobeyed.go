package evidence

import (
	"fmt"
	"strings"

	"attestd/chain"
	"attestd/chain/action"
)

const (
	maxDisobeyed   = 100 // calls in a verdict
	namedDisobeyed = 10  // calls in a sentence
)

// disobeyed finds the calls in a file that were refused and ran all the same; see package action.
// The file holds all the same: that a refusal was not obeyed is what its records say.
type disobeyed struct {
	tracker action.Tracker
	calls   []action.Disobeyed // the first ones
	count   int
}

// add adds the next record of actions, whose hash was checked.
func (d *disobeyed) add(r *chain.Record, in *content) {
	call, ok := action.Read(in.agentID, in.actionType, in.payload)
	if !ok {
		return
	}
	found, ok := d.tracker.Add(r.Index, &call)
	if !ok {
		return
	}
	if d.count++; d.count <= maxDisobeyed {
		d.calls = append(d.calls, found)
	}
}

// String says which calls disobeyed: refused at record 17, done at record 19.
func (d *disobeyed) String() string {
	said := make([]string, 0, namedDisobeyed)
	for _, call := range d.calls[:min(len(d.calls), namedDisobeyed)] {
		said = append(said, fmt.Sprintf("refused at record %d, done at record %d", call.Refused, call.Done))
	}
	text := strings.Join(said, "; ")
	if more := d.count - len(said); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// sayDisobeyed says which calls of a report disobeyed, if any.
func (c *checker) sayDisobeyed() {
	switch c.disobeyed.count {
	case 0:
	case 1:
		c.say("a call that was refused ran all the same: %s", &c.disobeyed)
	default:
		c.say("%d calls that were refused ran all the same: %s", c.disobeyed.count, &c.disobeyed)
	}
}

// disobey gives a session whose calls disobeyed that state, before every other.
func (s *Session) disobey(d *disobeyed) {
	if d.count > 0 {
		s.Completeness, s.State, s.Disobeyed, s.says = s.State, Disobeyed, d.calls, d.String()
	}
}
