package evidence

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/crypto/keyring"
	"attestd/crypto/keys"
)

func keyID(l *Log, index int64) string { return keys.Describe(l.keyAt(index)).KID }

// readWitnesses parses the vkeys of witnesses. Their cosignatures alone create no trust.
func (c *checker) readWitnesses() error {
	for _, vkey := range c.file.Witnesses {
		k, err := tlog.ParseVKey(vkey)
		if err != nil || k.Type != tlog.TypeCosignature {
			return fail(BadWitnesses, "%q is not the vkey of a witness", vkey)
		}
		if slices.ContainsFunc(c.witnesses, func(w tlog.VKey) bool { return w.Public.Equal(k.Public) }) {
			return fail(BadWitnesses, "the witness %s is a duplicate", k.Name)
		}
		c.witnesses = append(c.witnesses, k)
	}
	return nil
}

// allCosigned checks that witnesses lists exactly the cosigners, in order of appearance.
func (c *checker) allCosigned() error {
	if !slices.Equal(c.cosigners, c.file.Witnesses) {
		return fail(BadWitnesses, "witnesses does not list exactly the cosigners, in order")
	}
	return nil
}

// included checks the inclusion proof of a record.
func (c *checker) included(l *Log, r *chain.Record, text string) (tlog.Checkpoint, error) {
	p, err := tlog.ParseProof([]byte(text))
	if err != nil {
		return tlog.Checkpoint{}, err
	}
	if p.Extra != nil {
		return tlog.Checkpoint{}, errors.New("it has a line extra, which nothing authenticates")
	}
	if p.Index != r.Index {
		return tlog.Checkpoint{}, fmt.Errorf("the proof is of record %d", p.Index)
	}
	checkpoint, err := c.open(l, string(p.Checkpoint))
	if err != nil {
		return checkpoint, err
	}
	leaf := tlog.NewLeaf(r.Hash, r.Signature, tlog.KeyDigest(l.keyAt(r.Index)))
	return checkpoint, tlog.CheckInclusion(p.Hashes, checkpoint.Tree, p.Index, leaf.Hash())
}

// note is a signed checkpoint that was checked.
type note struct {
	tlog.Checkpoint
	text string
}

// open checks the checkpoint of a log, of which a file has only one.
func (c *checker) open(l *Log, text string) (tlog.Checkpoint, error) {
	if known, ok := c.notes[l.Name]; ok {
		if known.text != text {
			return known.Checkpoint, errors.New("its checkpoint is another one")
		}
		return known.Checkpoint, nil
	}
	checkpoint, _, err := tlog.ParseSignedCheckpoint([]byte(text))
	if err != nil {
		return checkpoint, err
	}
	last := l.Keys[len(l.Keys)-1]
	if checkpoint.Size > maxNumber { // which not every reader of JSON can hold
		return checkpoint, fmt.Errorf("its checkpoint is of %d records", checkpoint.Size)
	}
	if checkpoint.Origin != l.Origin {
		return checkpoint, fmt.Errorf("its checkpoint is of the log %q", checkpoint.Origin)
	}
	_, lines, _ := strings.Cut(text, "\n\n")
	for i, line := range strings.Split(strings.TrimSuffix(lines, "\n"), "\n") {
		if i == 0 {
			err = signedBy(checkpoint, line, l.vkey(last.Public))
		} else {
			err = c.cosignature(l, checkpoint, line)
		}
		if err != nil {
			return checkpoint, err
		}
	}
	c.notes[l.Name] = note{checkpoint, text}
	return checkpoint, nil
}

func (l *Log) vkey(public ed25519.PublicKey) tlog.VKey {
	return tlog.VKey{Name: l.Origin, Type: tlog.TypeEd25519, Public: public}
}

func signedBy(c tlog.Checkpoint, line string, key tlog.VKey) error {
	if _, _, err := tlog.OpenCheckpoint([]byte(c.Text()+"\n"+line+"\n"), key); err != nil {
		return errors.New("the last key has not signed its checkpoint in the first line")
	}
	return nil
}

// cosignature checks a further line below the checkpoint of a log.
func (c *checker) cosignature(l *Log, checkpoint tlog.Checkpoint, line string) error {
	by, err := checkpoint.ParseCosignatures([]byte(line+"\n"), c.witnesses...)
	if err != nil || len(by) != 1 {
		return errors.New("a signature below its checkpoint is not by a witness of the file, or does not verify")
	}
	vkey := by[0].Key.String()
	if c.cosigned[l.Name+" "+vkey] {
		return fmt.Errorf("the witness %s has two signatures below its checkpoint", by[0].Key.Name)
	}
	c.cosigned[l.Name+" "+vkey] = true
	if !slices.Contains(c.cosigners, vkey) {
		c.cosigners = append(c.cosigners, vkey)
	}
	at := time.Unix(by[0].Time, 0).UTC().Format(time.RFC3339)
	c.addChecked("the checkpoint of %s at %d records was cosigned at %s by %s, a witness only if you know it as one", l.Name, checkpoint.Size, at, vkey)
	return nil
}

// logProof checks the record's inclusion in the RFC 6962 tree.
func (c *checker) logProof() error {
	f := c.file
	checkpoint, err := c.included(f.log(f.Log), &f.Record, f.Proof)
	if err == nil && checkpoint.Size != f.HexProof.Size {
		err = fmt.Errorf("its checkpoint is for %d records, but hexProof for %d", checkpoint.Size, f.HexProof.Size)
	}
	if err != nil {
		return fail(BadLogProof, "tlogProof: %v", err)
	}
	c.addChecked("it is in the log %s of %d records, whose log root the company's last key has signed", checkpoint.Origin, checkpoint.Size)
	return nil
}

type published = keys.Public

// keys checks that kid and fingerprint match each key, and that each key follows from its
// predecessor.
func (c *checker) keys() error {
	f := c.file
	seen := make(map[string]bool)
	for i, k := range f.published {
		is := keys.Describe(k.Key)
		if k.KID != is.KID || k.Fingerprint != is.Fingerprint || k.JWK != is.JWK {
			return fail(KeysUnproven, "kid, fingerprint or jwk of key %d do not match the key", i)
		}
		if seen[is.Fingerprint] {
			return fail(KeysUnproven, "key %d is a duplicate", i)
		}
		seen[is.Fingerprint] = true
	}
	if want, have := f.neededLogs(), f.logNames(); !slices.Equal(have, want) {
		return fail(KeysUnproven, "the logs are %v, want %v", have, want)
	}
	var all []keyring.Key // those of actions, if present
	var proven []string
	for _, l := range f.Logs {
		if !strings.HasSuffix(l.Origin, "/v1/log/"+l.ID) {
			return fail(KeysUnproven, "the origin of the log %s does not match its logId", l.Name)
		}
		if len(l.Keys) == 0 {
			return fail(KeysUnproven, "the log %s has no key", l.Name)
		}
		if at := slices.IndexFunc(l.Keys, func(k keyring.Key) bool { return k.Public == nil }); at >= 0 {
			return fail(KeysUnproven, "key %d of the log %s is not the one in keys", at, l.Name)
		}
		var flaws []string
		if l.Name == Control && all != nil {
			flaws = keyring.FlawsWithProven(l.Origin, l.Keys, all, proven)
		} else {
			flaws = keyring.Flaws(l.Origin, l.Keys)
			all, proven = l.Keys, flaws
		}
		for _, flaw := range flaws {
			if flaw != "" {
				return fail(KeysUnproven, "log %s: %s", l.Name, flaw)
			}
		}
	}
	if n := len(f.Keys); n > 1 {
		c.addChecked("the company's %d keys follow from one another: each is named by the one before it, up to %s", n, f.published[n-1].Fingerprint)
	} else {
		c.addChecked("the company's key is %s", f.published[0].Fingerprint)
	}
	return nil
}

func (f *File) logNames() (names []string) {
	for _, l := range f.Logs {
		names = append(names, l.Name)
	}
	return names
}

// neededLogs returns the names of the logs that a check of the file needs. A file has no others,
// because nothing would authenticate them.
func (f *File) neededLogs() (names []string) {
	if f.bothLogs {
		return []string{Actions, Control}
	}
	control := f.Log == Control || f.AgentKey != nil && len(f.AgentKey.Entries) > 0 ||
		f.Authority != nil && len(f.Authority.Entries) > 0 || f.Passport != nil && len(f.Passport.Entries) > 0 ||
		f.Policies != nil && len(f.Policies.Entries) > 0 || f.Approvals != nil && len(f.Approvals.Entries) > 0 ||
		f.Passports != nil && len(f.Passports.Entries) > 0
	later := false // the first key of the control log is not the company's first
	for _, l := range f.Logs {
		later = later || l.Name == Control && len(l.Keys) > 0 && l.Keys[0].Generation != 0
	}
	if f.Log == Actions || later {
		names = append(names, Actions)
	}
	if control {
		names = append(names, Control)
	}
	return names
}

// log returns a log. It MUST be one of neededLogs, which keys has checked.
func (f *File) log(name string) *Log {
	return &f.Logs[slices.IndexFunc(f.Logs, func(l Log) bool { return l.Name == name })]
}

// keyAt returns the key that signs a record of the log.
func (l *Log) keyAt(index int64) ed25519.PublicKey { return l.keySet().At(index).Key }

// generation returns the place in the keys of the file of the key that signs a record of the log.
func (l *Log) generation(index int64) int {
	at := 0
	for i, k := range l.Keys {
		if k.From <= index {
			at = i
		}
	}
	return int(l.Keys[at].Generation)
}

// keySet returns the keys of a log, which MUST NOT change any more.
func (l *Log) keySet() chain.KeySet {
	if l.set == nil {
		l.set = make(chain.KeySet, len(l.Keys))
		for i, k := range l.Keys {
			l.set[i] = chain.KeyRange{From: k.From, Key: k.Public}
		}
	}
	return l.set
}
