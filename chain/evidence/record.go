package evidence

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"

	"attestd/chain"
	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
)

// canonical is the RFC 8785 form of what read has found to have one.
func canonical(src []byte) []byte {
	dst, err := jcs.Append(nil, src, maxDepth)
	if err != nil {
		panic("evidence: " + err.Error())
	}
	return dst
}

// content is the payload of a record and, where it has one, its delegation.
type content struct {
	agentID, actionType string
	payload             []byte
	delegated           []string // delegationChain
}

// signed checks a record of a log: form, hash and signature.
func (c *checker) signed(l *Log, r *chain.Record) (content, error) {
	in, err := c.hashed(l, r)
	if err == nil && !ed25519.Verify(l.keyAt(r.Index), r.Hash[:], r.Signature[:]) {
		err = errors.New("the key that the company had then has not signed it")
	}
	return in, err
}

// hashed checks the form of a record of a log, and that its hash is that of its content.
func (c *checker) hashed(l *Log, r *chain.Record) (content, error) {
	var in content
	f := new(form)
	names := []string{"agentId", "companyId", "actionType", "payload"}
	if l.Name == Control {
		// so that no action is taken for a control record: both logs have the same keys
		names = append(names, "log")
	}
	m := value{f, "payload", r.Payload}.object(names)
	if l.Name == Control && m["log"].text() != Control {
		f.refuse("payload.log is not control")
	}
	in.agentID, in.actionType, in.payload = m["agentId"].text(), m["actionType"].text(), m["payload"].src
	company := m["companyId"].text()
	sealed := *r
	if r.Delegation != nil {
		m := value{f, "delegation", r.Delegation}.object([]string{"act", "delegationChain", "subject", "tokenId"})
		m["subject"].text()
		m["tokenId"].text()
		if act := m["act"]; string(act.src) != "null" && (len(act.src) == 0 || act.src[0] != '{') {
			f.refuse("delegation.act is neither null nor an object")
		}
		var ok bool
		if in.delegated, ok = strictjson.AsStrings(m["delegationChain"].src); !ok {
			f.refuse("delegation.delegationChain is not an array of strings")
		}
		sealed.Delegation = canonical(r.Delegation)
	}
	if f.err != nil {
		return in, f.err
	}
	if company != c.file.CompanyID {
		return in, fmt.Errorf("it is of the company %q", company)
	}
	// sound has found it to have a form
	if c.form, _ = jcs.Append(c.form[:0], r.Payload, maxDepth); sealed.ComputeHash(c.form) != r.Hash {
		return in, errors.New("it was changed: it has another hash")
	}
	return in, nil
}

func (c *checker) record() error {
	f := c.file
	l := f.log(f.Log)
	in, err := c.signed(l, &f.Record)
	if err != nil {
		return fail(BadRecord, "record %d: %v", f.Record.Index, err)
	}
	c.content, c.signer = in, keyID(l, f.Record.Index)
	c.say("record %d of the log %s (%s, %s, %s) is as key %s signed it", f.Record.Index, f.Log, f.Record.Timestamp, in.agentID, in.actionType, c.signer)
	return nil
}

// hexProof checks the way to the root of the specified tree.
func (c *checker) hexProof() error {
	p, index := &c.file.HexProof, c.file.Record.Index
	if index >= p.Size {
		return fail(BadHexProof, "there is no record %d in a tree of %d", index, p.Size)
	}
	steps := p.Steps
	for n := p.Size - 1; n > 0; index, n = index>>1, n>>1 {
		if left := index&1 == 1; left || index < n {
			if len(steps) == 0 || steps[0].Left != left {
				return fail(BadHexProof, "the steps are not those of record %d in a tree of %d", c.file.Record.Index, p.Size)
			}
			steps = steps[1:]
		}
	}
	if len(steps) > 0 || p.Steps.Root(c.file.Record.Hash) != p.Root {
		return fail(BadHexProof, "the steps do not lead to the root")
	}
	c.say("its hash leads to the root %s of %d records", p.Root, p.Size)
	return nil
}

// agents are those in whose name the record was made: by its payload, and by its delegation.
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
