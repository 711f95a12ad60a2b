package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"attestd/chain/tlog"
)

// Trust is what the checking person trusts, from a source other than the file. The zero Trust is
// nothing.
type Trust struct {
	Fingerprint string       // of a key of the company, "SHA256:…"
	Policy      *tlog.Policy // or nil
	AgentKey    string       // thumbprint of a key of the agent, or ""
	Newer       *Newer       // a checkpoint that the file's must lead to, or nil

	// Known is asked where neither Fingerprint nor Policy is set; nil for none.
	Known   Known
	isKnown bool // Fingerprint is from Known
}

// Known names the fingerprint of a key that is trusted for a company, "" for none.
type Known interface{ Fingerprint(companyID string) string }

// Of returns the trust in the files of a company, with the fingerprint that is known of it.
func (t Trust) Of(companyID string) Trust {
	if t.Fingerprint == "" && t.Policy == nil && t.Known != nil {
		t.Fingerprint = t.Known.Fingerprint(companyID)
		t.isKnown = t.Fingerprint != ""
	}
	return t
}

// whose says from where the trusted fingerprint is.
func (t Trust) whose() string {
	if t.isKnown {
		return "is stored as trusted on this machine"
	}
	return "you named"
}

// Check checks an evidence file.
func Check(src []byte, t Trust) Verdict {
	c := newChecker(t)
	return c.verdict(c.check(src))
}

func newChecker(t Trust) *checker {
	return &checker{trust: t, cosigned: make(map[string]bool), notes: make(map[string]note)}
}

// verdict returns the verdict of a check that has ended with err, unless the newer checkpoint says
// otherwise.
func (c *checker) verdict(err error) Verdict {
	if err == nil && c.trust.Newer != nil {
		err = c.newer(*c.trust.Newer)
	}
	v := Verdict{Outcome: Holds, Checked: append([]string{}, c.checked...), NotProven: []string{}}
	var f *failure
	switch {
	case errors.As(err, &f):
		v.Outcome, v.Code, v.Reason = Fails, f.code, f.reason
		return v
	case c.trust.Fingerprint == "" && c.trust.Policy == nil:
		v.Outcome, v.Reason = SelfConsistent, "key not confirmed: anyone can make such a file"
	}
	v.NotProven = c.file.NotProven
	v.Statement, v.Session, v.NotActor = c.signedBy, c.session, c.notActor
	v.Summary = c.summary()
	if c.session == nil {
		v.Disobeyed = c.disobeyed.calls
	}
	return v
}

// checker is the state of the check of one file.
type checker struct {
	trust      Trust
	form       []byte // buffer for the RFC 8785 form
	file       *File
	witnesses  []tlog.VKey
	content    content         // of the record
	signer     string          // kid of the key of the record
	notes      map[string]note // the checkpoint of each log, by the log's name
	cosigned   map[string]bool // by the log's name and the witness's vkey
	cosigners  []string        // vkeys, in order of appearance
	signedBy   *Statement      // nil without a statement
	notActor   *string         // to whom another's delegation was given; nil for none
	session    *Session        // of a file of a session
	disobeyed  disobeyed       // of a session or a report
	standing   *event          // the latest about the record's agent at its time; nil for none
	ofPassport []event         // control records of the passport
	tally      tally           // of a session
	ofPeriod   *Report         // of a report
	checked    []string
}

func (c *checker) say(format string, args ...any) {
	c.checked = append(c.checked, fmt.Sprintf(format, args...))
}

func (c *checker) check(src []byte) (err error) {
	if c.file, err = c.read(src); err != nil {
		return fail(Malformed, "%v", err)
	}
	for _, step := range []func() error{
		c.keys, c.record, c.hexProof, c.readWitnesses, c.logProof, c.delegation, c.statement, c.authority, c.passport, c.status, c.allCosigned, c.notProven, c.trusted,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) delegation() error {
	f := c.file
	own := f.Record.Delegation
	if (own == nil) != (f.Delegation == nil) {
		return fail(BadDelegation, "only one of delegation and record.delegation is present")
	}
	if own != nil && !bytes.Equal(canonical(own), canonical(f.Delegation)) {
		return fail(BadDelegation, "delegation differs from record.delegation")
	}
	if f.Log == Actions {
		c.acts(&f.Record, &c.content)
	}
	return nil
}

func (c *checker) notProven() error {
	if !slices.Equal(c.file.NotProven, c.file.notProven()) {
		return fail(BadNotProven, "notProven is not the list for the members of this file")
	}
	return nil
}

// trusted checks the file against the trusted fingerprint or policy.
func (c *checker) trusted() error {
	c.trust = c.trust.Of(c.file.CompanyID)
	switch pinned := c.trust; {
	case pinned.Fingerprint != "":
		at := slices.IndexFunc(c.file.published, func(k published) bool { return k.Fingerprint == pinned.Fingerprint })
		if at < 0 {
			return fail(KeyUntrusted, "the file does not contain the key that you trust, %s", pinned.Fingerprint)
		}
		last := len(c.file.Keys) - 1
		if at == last {
			c.say("the key that you trust has signed every checkpoint here")
		} else {
			c.say("the key that you trust, %d of %d, is followed by the one that has signed every checkpoint here", at+1, last+1)
		}
	case pinned.Policy != nil:
		return c.policy(*pinned.Policy)
	}
	return nil
}

// policy checks every checkpoint against the policy. A policy cannot name one key for two logs, so
// a line that names the last key for one of the company's logs counts for the other too.
func (c *checker) policy(p tlog.Policy) error {
	last := c.file.Keys[len(c.file.Keys)-1]
	named := slices.ContainsFunc(c.file.Logs, func(l Log) bool {
		return slices.ContainsFunc(p.Logs, func(line tlog.PolicyLog) bool { return line.Key.String() == l.vkey(last).String() })
	})
	if !named {
		return fail(PolicyUnmet, "the policy has no log with the key that has signed the checkpoints")
	}
	for _, l := range c.file.Logs {
		n, ok := c.notes[l.Name]
		if !ok {
			continue // only the keys of actions are in a file about control
		}
		p.Logs = []tlog.PolicyLog{{Key: l.vkey(last)}}
		w, err := p.Open([]byte(n.text))
		if err != nil {
			return fail(PolicyUnmet, "the policy does not accept the checkpoint of %s: %v", l.Name, err)
		}
		if !w.Quorum {
			return fail(PolicyUnmet, "the checkpoint of %s is not cosigned by a quorum of the policy", l.Name)
		}
		c.say("your policy accepts the checkpoint of %s at %d records, which %d of its witnesses have cosigned", l.Name, w.Size, len(w.By))
	}
	return nil
}
