package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"attestd/chain"
	"attestd/crypto/strictjson"
)

// event is the content of a control record.
type event struct {
	index                      int64
	timestamp, action, subject string
	by                         string // credential; "" for the service itself
	agentID, revokedAt         string // "" if absent
	reason                     []byte // canonical; null if absent
	payload                    []byte // all of it

	// the setting before and after the record; nil if absent
	before, witnesses *string
}

// event checks a control record and its inclusion in the control log.
func (c *checker) event(e *Entry) (event, error) {
	l := c.file.log(Control)
	in, err := c.signed(l, &e.Record)
	if err == nil {
		_, err = c.included(l, &e.Record, e.Proof)
	}
	if err != nil {
		return event{}, err
	}
	return newEvent(&e.Record, in)
}

// newEvent parses a control record.
func newEvent(r *chain.Record, in content) (event, error) {
	v := event{index: r.Index, timestamp: r.Timestamp, action: in.actionType, payload: in.payload, reason: []byte("null")}
	ok, isBy := false, false
	err := strictjson.EachMember(in.payload, maxDepth, func(name, src []byte) {
		switch string(name) {
		case "subject":
			v.subject, ok = strictjson.AsString(src)
		case "by":
			v.by, isBy = strictjson.AsString(src)
			isBy = isBy || string(src) == "null"
		case "agentId":
			v.agentID, _ = strictjson.AsString(src)
		case "revokedAt":
			v.revokedAt, _ = strictjson.AsString(src)
		case "reason":
			v.reason = canonical(src)
		case "settings": // of the registration of a company
			v.witnesses = textAt(src, "witnesses")
		case "changed": // changed settings, by name
			v.before, v.witnesses = textAt(src, "witnesses", "from"), textAt(src, "witnesses", "to")
		}
	})
	if err != nil || !ok || !isBy {
		return event{}, errors.New("it does not name what was changed and by whom")
	}
	return v, nil
}

// textAt returns the string at a path of members, or nil.
func textAt(src []byte, path ...string) (text *string) {
	_ = strictjson.EachMember(src, maxDepth, func(name, value []byte) {
		if string(name) != path[0] {
			return
		}
		if len(path) > 1 {
			text = textAt(value, path[1:]...)
		} else if s, ok := strictjson.AsString(value); ok {
			text = &s
		}
	})
	return text
}

// events checks control records. about reports whether an event may be in the list.
func (c *checker) events(code Code, entries []Entry, about func(event) bool) (events []event, err error) {
	last := int64(-1)
	for i := range entries {
		e, err := c.event(&entries[i])
		switch {
		case err != nil:
		case e.index <= last:
			err = errors.New("it is out of order")
		case !about(e):
			err = fmt.Errorf("it is about something else, %s", e.subject)
		}
		if err != nil {
			return nil, fail(code, "control record %d: %v", entries[i].Record.Index, err)
		}
		last = e.index
		events = append(events, e)
		c.addChecked("control record %d says: %s, %s, at %s, by %s", e.index, e.action, e.subject, e.timestamp, by(e.by))
	}
	return events, nil
}

func by(credential string) string {
	if credential == "" {
		return "the service itself"
	}
	return credential
}

// authority checks the control records about the authority of the record's agent.
func (c *checker) authority() error {
	if c.file.Authority == nil {
		return nil
	}
	agents := c.agents()
	events, err := c.events(BadAuthority, c.file.Authority.Entries, func(e event) bool {
		kind, name, _ := strings.Cut(e.subject, ":")
		switch kind {
		case "agent":
			return agents[name]
		case "passport":
			return agents[e.agentID]
		case "signing-key":
			return name == c.signer
		}
		return false
	})
	if err != nil {
		return err
	}
	for _, e := range events {
		if e.subject == "agent:"+c.content.agentID && e.timestamp <= c.file.Record.Timestamp {
			c.latestEvent = &e
		}
	}
	if c.latestEvent == nil {
		c.addChecked("nothing here says that the agent %s was registered when the record was made", c.content.agentID)
	} else {
		c.addChecked("the latest of these control records about the agent %s when the record was made: %s, control record %d", c.content.agentID,
			c.latestEvent.action, c.latestEvent.index)
	}
	return nil
}

// passport checks the control records of the file's passport.
func (c *checker) passport() (err error) {
	p := c.file.Passport
	if p == nil {
		return nil
	}
	agent := ""
	c.ofPassport, err = c.events(BadPassport, p.Entries, func(e event) bool {
		if e.subject == "passport:"+p.JTI {
			if e.action == "passport.issued" {
				agent = e.agentID
			}
			return true
		}
		return e.action == "agent.disabled" && agent != "" && e.subject == "agent:"+agent
	})
	if err == nil && len(c.ofPassport) == 0 {
		c.addChecked("nothing here says that the passport %s was ever issued", p.JTI)
	}
	return err
}

// agrees reports whether a status is consistent with a control record of the passport.
func (e *event) agrees(s *status) bool {
	switch e.action {
	case "passport.issued":
		return s.state != "unknown"
	case "agent.disabled": // it revokes all passports of the agent
		return s.state == "revoked"
	case "passport.revoked":
		reason := []byte("null")
		if s.reason != nil {
			reason = canonical(s.reason)
		}
		return s.state == "revoked" && s.revokedAt == e.revokedAt && bytes.Equal(reason, e.reason)
	}
	return true
}
