package evidence

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/crypto/keyring"
	"attestd/crypto/keys"
)

// Ring has the logs and keys of one company, for a form that holds more than one file can: see
// package lines. Its methods make the checks of a file: KEYS, RECORD and LOG_PROOF. Nothing in it
// is trusted by itself.
type Ring struct {
	c      *checker
	leaves map[string]*chain.Leaves // by the log's name
}

// AppendRing appends the logs and keys of a file as {"companyId","logs","keys"}, with the members
// that a report has. The file MUST have both logs.
func (f *File) AppendRing(dst []byte) []byte {
	w := writer(dst)
	w.object(func(m *members) {
		m.text("companyId", f.CompanyID)
		m.list("logs", func(each func(func(*members))) {
			for _, l := range f.Logs {
				each(func(m *members) { l.write(m, len(f.Keys)) })
			}
		})
		m.list("keys", f.writeKeys)
	})
	return w
}

// ReadRing reads and checks what AppendRing has written. CodeOf returns the code of its error.
func ReadRing(src []byte) (*Ring, error) {
	c := newChecker(Trust{})
	if err := c.sound(src); err != nil {
		return nil, fail(Malformed, "%v", err)
	}
	in, f := new(form), &File{bothLogs: true, Log: Actions}
	m := value{in, "ring", src}.object([]string{"companyId", "logs", "keys"})
	f.CompanyID = m["companyId"].company()
	f.readKeys(m["keys"])
	for _, v := range m["logs"].list(2) {
		f.Logs = append(f.Logs, v.log(f))
	}
	if in.err != nil {
		return nil, fail(Malformed, "%v", in.err)
	}
	c.file = f
	if err := c.keys(); err != nil {
		return nil, err
	}
	r := &Ring{c, make(map[string]*chain.Leaves)}
	for i := range f.Logs {
		r.leaves[f.Logs[i].Name] = &chain.Leaves{Keys: f.Logs[i].keySet()}
	}
	return r, nil
}

// CodeOf returns the code of an error of a check, and "" for other errors.
func CodeOf(err error) Code {
	if f := (*failure)(nil); errors.As(err, &f) {
		return f.code
	}
	return ""
}

// CompanyID returns the company.
func (r *Ring) CompanyID() string { return r.c.file.CompanyID }

// Keys returns how many keys the company has.
func (r *Ring) Keys() int { return len(r.c.file.Keys) }

// Fingerprint returns that of key n.
func (r *Ring) Fingerprint(n int) string { return r.c.file.published[n].Fingerprint }

// Pinned returns which key has a fingerprint.
func (r *Ring) Pinned(fingerprint string) (n int, ok bool) {
	n = slices.IndexFunc(r.c.file.published, func(k keys.Public) bool { return k.Fingerprint == fingerprint })
	return n, n >= 0
}

// Extends reports whether r has the same logs as older, and all of its keys in the same places.
func (r *Ring) Extends(older *Ring) bool {
	a, b := older.c.file, r.c.file
	if a.CompanyID != b.CompanyID || len(a.Keys) > len(b.Keys) || len(a.Logs) != len(b.Logs) {
		return false
	}
	for i, k := range a.Keys {
		if !k.Equal(b.Keys[i]) {
			return false
		}
	}
	for i := range a.Logs {
		l, m := &a.Logs[i], &b.Logs[i]
		if l.Name != m.Name || l.ID != m.ID || l.Origin != m.Origin || len(l.Keys) > len(m.Keys) ||
			!slices.EqualFunc(l.Keys, m.Keys[:len(l.Keys)], func(x, y keyring.Key) bool {
				return x.Generation == y.Generation && x.From == y.From
			}) {
			return false
		}
	}
	return true
}

// Record reads a record of a log, and checks its form, its company and its hash. The record aliases
// src. It reports whether the record has a statement of its agent, and not what that says.
func (r *Ring) Record(log string, src []byte) (record *chain.Record, stated bool, err error) {
	if err := r.c.sound(src); err != nil {
		return nil, false, err
	}
	form := new(form)
	read := value{form, "record", src}.record()
	if form.err != nil {
		return nil, false, form.err
	}
	in, err := r.c.hashed(r.c.file.log(log), &read)
	return &read, in.stated, err
}

// Signed reports whether the key of its index has signed a record that Record has returned.
func (r *Ring) Signed(log string, record *chain.Record) bool {
	return ed25519.Verify(r.c.file.log(log).keyAt(record.Index), record.Hash[:], record.Signature[:])
}

// Leaf returns the hash of a record's leaf in the log tree.
func (r *Ring) Leaf(log string, record *chain.Record) tlog.Hash {
	leaf := r.leaves[log].Of(record)
	return leaf.Hash()
}

// Open reads a signed checkpoint of a log, and returns the key that has signed it in its first
// signature line. A key that has ended signs no tree that is larger than the number of records
// before the next key's: a later thief of it could.
func (r *Ring) Open(log, text string) (checkpoint tlog.Checkpoint, signer int, err error) {
	l := r.c.file.log(log)
	checkpoint, n, err := tlog.ParseSignedCheckpoint([]byte(text))
	if err != nil {
		return checkpoint, 0, err
	}
	if checkpoint.Origin != l.Origin || checkpoint.Size > maxNumber {
		return checkpoint, 0, fmt.Errorf("it is of %d records of the log %q", checkpoint.Size, checkpoint.Origin)
	}
	first := n.UnverifiedSigs[0]
	for i, k := range slices.Backward(l.Keys) {
		vkey := l.vkey(k.Public)
		if first.Name != vkey.Name || first.Hash != vkey.ID() {
			continue
		}
		if _, _, err := tlog.OpenCheckpoint([]byte(text), vkey); err != nil {
			return checkpoint, 0, err
		}
		if i+1 < len(l.Keys) && checkpoint.Size > l.Keys[i+1].From {
			return checkpoint, 0, fmt.Errorf("it is of %d records, and its key signed only %d", checkpoint.Size, l.Keys[i+1].From)
		}
		return checkpoint, int(k.Generation), nil
	}
	return checkpoint, 0, errors.New("no key of the company has signed it in its first line")
}

// Meets returns an error unless a policy trusts a checkpoint that Open has returned: the policy has
// a log with the signer's key, and a quorum of its witnesses has cosigned.
func (r *Ring) Meets(p tlog.Policy, log, text string, signer int) error {
	public := r.c.file.Keys[signer]
	if !slices.ContainsFunc(r.c.file.Logs, func(l Log) bool {
		return slices.ContainsFunc(p.Logs, func(line tlog.PolicyLog) bool { return line.Key.String() == l.vkey(public).String() })
	}) {
		return errors.New("the policy has no log with the key that has signed it")
	}
	p.Logs = []tlog.PolicyLog{{Key: r.c.file.log(log).vkey(public)}}
	w, err := p.Open([]byte(text))
	if err == nil && !w.Quorum {
		err = errors.New("it is not cosigned by a quorum of the policy")
	}
	return err
}
