package evidence

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"

	"attestd/chain"
	"attestd/chain/decision"
	"attestd/crypto/jcs"
	"attestd/crypto/statement"
	"attestd/crypto/strictjson"
)

// canonical returns the RFC 8785 form. It MUST exist, which read has checked.
func canonical(src []byte) []byte {
	dst, err := jcs.Append(nil, src, maxDepth)
	if err != nil {
		panic("evidence: " + err.Error())
	}
	return dst
}

// content is the parsed payload and delegation of a record.
type content struct {
	agentID, actionType string
	payload             []byte
	subject             *string  // of the delegation; nil without one
	delegated           []string // delegationChain
	actor               *string  // the last of it, where act is not null; else nil
	tokenID             string   // of the delegation; "" without one, as delegationHash
	delegationHash      string   // see cred.Delegation.Hash

	statement  string // of the agent, where stated
	stated     bool
	actionHash string // what statement must name, where stated

	decision *decision.Decision // nil without one
}

// signed checks the format, hash and signature of a record. The code of its error is PRUNED where
// only the hash could not be recomputed, because the payload was pruned.
func (c *checker) signed(l *Log, r *chain.Record) (content, error) {
	in, err := c.hashed(l, r)
	if (err == nil || CodeOf(err) == Pruned) && !ed25519.Verify(l.keyAt(r.Index), r.Hash[:], r.Signature[:]) {
		err = errors.New("it was not signed with the company's key at that time")
	}
	return in, err
}

// hashed checks the format and hash of a record.
func (c *checker) hashed(l *Log, r *chain.Record) (content, error) {
	var in content
	if r.IsPruned() && l.Name == Control {
		return in, errors.New("a control record is never without its payload")
	}
	f := new(form)
	company := c.file.CompanyID // nothing says of which one a record without its payload is
	if !r.IsPruned() {
		names, optional := []string{"agentId", "companyId", "actionType", "payload"}, []string{"statement", "decision"}
		if l.Name == Control {
			// Both logs have the same keys, so this member keeps an action from passing as a
			// control record.
			names, optional = append(names, "log"), nil
		}
		m := value{f, "payload", r.Payload}.object(names, optional...)
		if l.Name == Control && m["log"].text() != Control {
			f.refuse("payload.log is not control")
		}
		in.agentID, in.actionType, in.payload = m["agentId"].text(), m["actionType"].text(), m["payload"].src
		company = m["companyId"].text()
		if text := m["decision"].src; text != nil {
			d, err := decision.Parse(text)
			if err != nil {
				f.refuse("payload.%v", err)
			}
			in.decision = &d
		}
		if in.stated = m["statement"].src != nil; in.stated {
			in.statement = m["statement"].text()
		}
	}
	sealed := *r
	if r.Delegation != nil {
		m := value{f, "delegation", r.Delegation}.object([]string{"act", "delegationChain", "subject", "tokenId"})
		subject := m["subject"].text()
		in.subject = &subject
		in.tokenID = m["tokenId"].text()
		act := m["act"].src
		if string(act) != "null" && (len(act) == 0 || act[0] != '{') {
			f.refuse("delegation.act is neither null nor an object")
		}
		var ok bool
		if in.delegated, ok = strictjson.AsStrings(m["delegationChain"].src); !ok {
			f.refuse("delegation.delegationChain is not an array of strings")
		}
		if n := len(in.delegated); n > 0 && string(act) != "null" {
			in.actor = &in.delegated[n-1]
		}
		sealed.Delegation = canonical(r.Delegation)
		in.delegationHash = statement.HashCanonical(sealed.Delegation)
	}
	if f.err != nil {
		return in, f.err
	}
	if company != c.file.CompanyID {
		return in, fmt.Errorf("it is of the company %q", company)
	}
	if r.IsPruned() {
		return in, fail(Pruned, "its payload was pruned, and without it the hash cannot be recomputed")
	}
	// sound has checked that a canonical form exists
	if c.form, _ = jcs.Append(c.form[:0], r.Payload, maxDepth); sealed.ComputeHash(c.form) != r.Hash {
		return in, errors.New("its hash does not match its content")
	}
	if in.stated {
		// In the canonical form the statement is last.
		rest := len(c.form) - len(jcs.AppendString([]byte(`,"statement":`), in.statement)) - 1
		stated, _ := decision.Cut(append(c.form[:rest], '}'))
		in.actionHash = statement.HashCanonical(stated)
	}
	return in, nil
}

func (c *checker) record() error {
	f := c.file
	l := f.log(f.Log)
	in, err := c.signed(l, &f.Record)
	if err != nil {
		return failRecord(err, "record %d: %v", f.Record.Index, err)
	}
	c.content, c.signer = in, keyID(l, f.Record.Index)
	c.addChecked("record %d of the log %s (%s, %s, %s) is as key %s signed it", f.Record.Index, f.Log, f.Record.Timestamp, in.agentID, in.actionType, c.signer)
	return nil
}

// failRecord is fail with PRUNED or DECISION where that is the code of err, and otherwise with
// RECORD.
func failRecord(err error, format string, args ...any) error {
	if code := CodeOf(err); code == Pruned || code == BadDecision {
		return fail(code, format, args...)
	}
	return fail(BadRecord, format, args...)
}

// hexProof checks the inclusion proof in the specified tree.
func (c *checker) hexProof() error {
	p, index := &c.file.HexProof, c.file.Record.Index
	if index >= p.Size {
		return fail(BadHexProof, "a tree of %[2]d has no record %[1]d", index, p.Size)
	}
	steps := p.Steps
	for n := p.Size - 1; n > 0; index, n = index>>1, n>>1 {
		if left := index&1 == 1; left || index < n {
			if len(steps) == 0 || steps[0].Left != left {
				return fail(BadHexProof, "the steps do not match record %d in a tree of %d", c.file.Record.Index, p.Size)
			}
			steps = steps[1:]
		}
	}
	if len(steps) > 0 || p.Steps.Root(c.file.Record.Hash) != p.Root {
		return fail(BadHexProof, "the steps do not lead to the chain root")
	}
	c.addChecked("its hash leads to the chain root %s of %d records", p.Root, p.Size)
	return nil
}

// agents returns the agents of the record: that of its payload, and those of its delegation.
func (c *checker) agents() map[string]bool {
	agents := map[string]bool{c.content.agentID: true}
	for _, id := range c.content.delegated {
		rest, ok1 := strings.CutPrefix(id, "spiffe://")
		_, path, ok2 := strings.Cut(rest, "/")
		agent, ok3 := strings.CutPrefix(path, "company/"+c.file.CompanyID+"/agent/")
		if ok1 && ok2 && ok3 {
			agents[agent] = true
		}
	}
	return agents
}
