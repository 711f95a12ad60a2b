package evidence

import (
	"fmt"
	"slices"

	"attestd/chain/tlog"
)

// Newer is a checkpoint of a log that is newer than one of a file, with the consistency proof
// between them: the response of GET /v1/log/{logId}/consistency.
type Newer struct {
	From       int64 // the old size of Proof
	Proof      []tlog.Hash
	Checkpoint []byte // signed
}

// newer checks the newer checkpoint against the file's. A rewritten history has no consistency
// proof.
func (c *checker) newer(n Newer) error {
	says, err := c.file.follows(n, c.trust.Policy, func(log string) (trees []tlog.Tree) {
		if old, ok := c.notes[log]; ok {
			trees = append(trees, old.Tree)
		}
		return trees
	})
	if err == nil {
		c.say("%s", says)
	}
	return err
}

// Follows checks a newer checkpoint against those of a form, which are of the trees of a log that
// checked returns: the same size may follow from any of them. It says what was checked. CodeOf
// returns the code of its error: NEWER or POLICY.
func (r *Ring) Follows(n Newer, p *tlog.Policy, checked func(log string) []tlog.Tree) (says string, err error) {
	return r.c.file.follows(n, p, checked)
}

// follows checks that the last key of a file has signed the newer checkpoint, because the file
// cannot authenticate another key, and that the proof leads to it from a tree that was checked.
func (f *File) follows(n Newer, policy *tlog.Policy, checked func(log string) []tlog.Tree) (says string, err error) {
	newer, _, err := tlog.ParseSignedCheckpoint(n.Checkpoint)
	if err != nil {
		return "", fail(NotFollowed, "the newer checkpoint: %v", err)
	}
	at := slices.IndexFunc(f.Logs, func(l Log) bool { return l.Origin == newer.Origin })
	if at < 0 {
		return "", fail(NotFollowed, "the newer checkpoint is for the log %q, which the file does not have", newer.Origin)
	}
	l := f.Logs[at]
	trees := checked(l.Name)
	if len(trees) == 0 {
		return "", fail(NotFollowed, "the file has no checkpoint of %s to compare", l.Name)
	}
	key := l.vkey(f.Keys[len(f.Keys)-1])
	if _, _, err := tlog.OpenCheckpoint(n.Checkpoint, key); err != nil {
		return "", fail(NotFollowed, "the key that signed the file's checkpoints has not signed the newer one; after a key rotation, use a newer file")
	}
	if policy != nil {
		held := *policy
		held.Logs = []tlog.PolicyLog{{Key: key}}
		w, err := held.Open(n.Checkpoint)
		if err != nil || !w.Quorum {
			return "", fail(PolicyUnmet, "the newer checkpoint of %s is not cosigned by a quorum of the policy", l.Name)
		}
	}
	from := slices.IndexFunc(trees, func(t tlog.Tree) bool { return t.Size == n.From })
	if from < 0 {
		return "", fail(NotFollowed, "the proof starts at %d records, but the file's checkpoint has %d", n.From, trees[len(trees)-1].Size)
	}
	if old := trees[from]; tlog.CheckConsistency(n.Proof, old, newer.Tree) != nil {
		return "", fail(NotFollowed, "the newer checkpoint of %d records is not consistent with the file's of %d: the history was rewritten", newer.Size, old.Size)
	}
	return fmt.Sprintf("the newer checkpoint of %s, of %d records, is consistent with the file's: its records are unchanged", l.Name, newer.Size), nil
}
