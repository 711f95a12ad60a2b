package attack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"attestd/chain/evidence"
	"attestd/chain/evidence/evidencetest"
	"attestd/crypto/cred"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
)

// honest is what an agent has signed, with the keys that it had one after the other: first, which
// was enrolled before statements had log, and second, which follows from it. An operator has every
// word of it, and none of these keys.
type honest struct {
	first, second *jose.PrivateKey
	impostor      *jose.PrivateKey // the operator's
	other         *jose.PrivateKey // of another agent
	endorsement   string           // of second, by first
	enrolledSince time.Time        // second
	words         map[string]*word
	run, next     []*word // of second: place 2 of run was refused; next goes on from it
	older         []*word // a session of first
}

// word is a statement with the action that it is of.
type word struct {
	*statement.Statement
	payload    string
	delegation string
	at         time.Time // when it was recorded, or would have been
	second     bool      // of the second key
}

const (
	honestAgent   = "bot"
	honestCompany = "acme"
	honestAction  = "pay"
)

var (
	honestNames  = localDomain.AgentID(honestCompany, honestAgent)
	honestOwner  = localDomain.CompanyID(honestCompany)
	honestOrigin = evidencetest.NewOperator(honestCompany, 1).Actions.Log.Origin
)

// given is the delegation of the agent.
func given(chain ...string) string { return string(cred.NewDelegation(chain, "d-1", "").Canonical()) }

func newHonest(ctx context.Context) (h *honest, err error) {
	h = &honest{words: map[string]*word{}}
	for _, key := range []**jose.PrivateKey{&h.first, &h.second, &h.impostor, &h.other} {
		if *key, err = jose.GenerateKey(jose.EdDSA); err != nil {
			return nil, err
		}
	}
	h.enrolledSince = evidencetest.Began.Add(time.Hour)
	e, err := statement.MakeEndorsement(ctx, h.first, statement.EndorsementClaims{
		Issuer: honestNames, Audience: honestOwner, IssuedAt: h.enrolledSince.Unix() - 1, Next: h.second.Key().Thumbprint,
	})
	if err != nil {
		return nil, err
	}
	h.endorsement = e.Compact
	at := h.enrolledSince
	say := func(key *jose.PrivateKey, delegation string, change func(*statement.Claims)) *word {
		at = at.Add(time.Minute)
		payload := fmt.Sprintf(`{"amount":%d}`, at.Unix())
		hash, failed := statement.HashAction(honestAction, honestAgent, honestCompany, []byte(payload))
		c := statement.Claims{Issuer: honestNames, Audience: honestOwner, Log: honestOrigin, IssuedAt: at.Unix(), ActionHash: hash}
		if delegation != "" {
			var hashing error
			c.Delegation, hashing = cred.HashInfo([]byte(delegation))
			failed = errors.Join(failed, hashing)
		}
		change(&c)
		made, making := statement.Make(ctx, key, c)
		err = errors.Join(err, failed, making)
		return &word{made, payload, delegation, at.Add(time.Second), key == h.second}
	}
	none := func(*statement.Claims) {}
	delegated := given(honestOwner, honestNames)
	h.words["second"] = say(h.second, "", none)
	h.words["second, delegated"] = say(h.second, delegated, none)
	h.words["second, in a session"] = say(h.second, "", func(c *statement.Claims) {
		c.Session, c.Continues = "alone", &statement.Continues{Session: "before", KeyID: h.first.Key().Thumbprint, Hash: c.ActionHash}
	})
	h.words["another of second"] = say(h.second, "", none)
	older := func(c *statement.Claims) {
		if c.Log = ""; c.Delegation != "" {
			c.Delegation = "d-1"
		}
	}
	h.words["first, older"] = say(h.first, "", older)
	h.words["first, older, delegated"] = say(h.first, delegated, older)
	h.words["first"] = say(h.first, delegated, none)
	session := func(key *jose.PrivateKey, sid string, count int64, change func(*statement.Claims, []*word)) (all []*word) {
		for seq := range count {
			all = append(all, say(key, "", func(c *statement.Claims) {
				if c.Session, c.Seq, c.End = sid, seq, seq == count-1; seq > 0 {
					c.Previous = all[seq-1].Hash()
				}
				change(c, all)
			}))
			if err != nil {
				return nil
			}
		}
		return all
	}
	h.run = session(h.second, "run", 6, func(c *statement.Claims, before []*word) {
		if c.Seq == 3 {
			c.Refused = []statement.Refused{{Seq: 2, Hash: before[2].Hash(), Code: "RATE_LIMITED"}}
		}
	})
	if err != nil {
		return nil, err
	}
	h.next = session(h.second, "next", 3, func(c *statement.Claims, _ []*word) {
		if c.Seq == 0 {
			c.Continues = &statement.Continues{Session: "run", KeyID: h.second.Key().Thumbprint, Hash: h.run[5].Hash()}
		}
	})
	h.older = session(h.first, "older", 4, func(c *statement.Claims, _ []*word) { c.Log = "" })
	return h, err
}

// writing is what an operator writes into his logs about one action, or about a session.
type writing struct {
	company    string
	logs       byte // which logs of that name; 1 for those that statements name
	agent      string
	action     string
	payload    string
	statement  string
	delegation string
	at         time.Time // of the record
	enrolled   []keyEnrolment
	revoked    []keyRevocation
	edit       func(*evidence.File)
}

// keyEnrolment is the control record of a key.
type keyEnrolment struct {
	agent   string
	key     *jose.Key
	at      time.Time
	details map[string]any
	omitted bool // the file has it not
}

// keyRevocation is the control record of the revocation of a key.
type keyRevocation struct {
	agent, thumbprint string
	at                time.Time
	details           map[string]any
	omitted           bool
}

// writing returns what an honest operator would write about a word.
func (h *honest) writing(w *word) *writing {
	s := &writing{company: honestCompany, logs: 1, agent: honestAgent, action: honestAction, payload: w.payload, statement: w.Compact,
		delegation: w.delegation, at: w.at}
	s.enrolled = h.enrolments(w.KeyID)
	return s
}

// enrolments are those of a key of the agent, and of the one from which it follows.
func (h *honest) enrolments(kid string) []keyEnrolment {
	list := []keyEnrolment{{agent: honestAgent, key: h.first.Key(), at: evidencetest.Began.Add(time.Second), details: map[string]any{"statementVersion": 1}}}
	if kid == h.second.Key().Thumbprint {
		list = append(list, keyEnrolment{agent: honestAgent, key: h.second.Key(), at: h.enrolledSince, details: map[string]any{"endorsement": h.endorsement}})
	}
	return list
}

// control writes the control records in the order of their times, and returns those that the file
// has.
func (s *writing) control(o *evidencetest.Operator) (stored []int64) {
	type change struct {
		at      time.Time
		write   func() int64
		omitted bool
	}
	var all []change
	for _, e := range s.enrolled {
		all = append(all, change{e.at, func() int64 { return o.Enrol(e.agent, e.key, e.details) }, e.omitted})
	}
	for _, r := range s.revoked {
		all = append(all, change{r.at, func() int64 { return o.Revoke(r.agent, r.thumbprint, r.details) }, r.omitted})
	}
	slices.SortStableFunc(all, func(a, b change) int { return a.at.Compare(b.at) })
	for _, c := range all {
		o.Now = c.at.Add(-time.Second)
		if index := c.write(); !c.omitted {
			stored = append(stored, index)
		}
	}
	return stored
}

// file writes the logs, and returns the evidence of the action.
func (s *writing) file() []byte {
	o := evidencetest.NewOperator(s.company, s.logs)
	stored := s.control(o)
	o.Now = s.at.Add(-time.Second)
	f := o.Evidence(o.Action(s.agent, s.action, s.payload, s.statement, s.delegation), stored...)
	if s.edit != nil {
		s.edit(f)
	}
	return f.JSON()
}

// genuine are files of what the agent has signed, as an honest operator makes them.
func (h *honest) genuine() (list []operatorsFile) {
	for name, w := range h.words {
		list = append(list, operatorsFile{name: name, file: h.writing(w).file(), pin: h.first.Key().Thumbprint, message: []string{"own key " + w.KeyID + " signed this"}})
	}
	add := func(name string, words []*word, message string) {
		f := h.session(words)
		list = append(list, operatorsFile{name: name, file: f.file(), pin: h.first.Key().Thumbprint, message: []string{message}})
	}
	add("run", slices.Concat(h.run[:2], h.run[3:]), "complete: 0 to 5, sealed, 1 refused")
	add("next", h.next, "complete: 0 to 2, sealed")
	add("older", h.older, "complete: 0 to 3, sealed")
	return list
}
