package evidence

import (
	"slices"

	"attestd/chain/tlog"
)

// Newer is a checkpoint of a log that is newer than the file's, with the consistency proof between
// them: the response of GET /v1/log/{logId}/consistency.
type Newer struct {
	From       int64 // the old size of Proof
	Proof      []tlog.Hash
	Checkpoint []byte // signed
}

// CheckNewer is Check followed by a comparison of the file's checkpoint with a newer one. A
// rewritten history has no consistency proof.
func CheckNewer(src []byte, n Newer, t Trust) Verdict {
	c := newChecker(t)
	err := c.check(src)
	if err == nil {
		err = c.newer(n)
	}
	return c.verdict(err)
}

// newer checks the newer checkpoint. The file's last key must have signed it, because the file
// cannot authenticate another key.
func (c *checker) newer(n Newer) error {
	newer, _, err := tlog.ParseSignedCheckpoint(n.Checkpoint)
	if err != nil {
		return fail(NotFollowed, "the newer checkpoint: %v", err)
	}
	at := slices.IndexFunc(c.file.Logs, func(l Log) bool { return l.Origin == newer.Origin })
	if at < 0 {
		return fail(NotFollowed, "the newer checkpoint is for the log %q, which the file does not have", newer.Origin)
	}
	l := c.file.Logs[at]
	old, ok := c.notes[l.Name]
	if !ok {
		return fail(NotFollowed, "the file has no checkpoint of %s to compare", l.Name)
	}
	key := l.vkey(c.file.Keys[len(c.file.Keys)-1])
	if _, _, err := tlog.OpenCheckpoint(n.Checkpoint, key); err != nil {
		return fail(NotFollowed, "the key that signed the file's checkpoints has not signed the newer one; after a key rotation, use a newer evidence file")
	}
	if p := c.trust.Policy; p != nil {
		held := *p
		held.Logs = []tlog.PolicyLog{{Key: key}}
		w, err := held.Open(n.Checkpoint)
		if err != nil || !w.Quorum {
			return fail(PolicyUnmet, "the newer checkpoint of %s is not cosigned by a quorum of the policy", l.Name)
		}
	}
	if n.From != old.Size {
		return fail(NotFollowed, "the proof starts at %d records, but the file's checkpoint has %d", n.From, old.Size)
	}
	if tlog.CheckConsistency(n.Proof, old.Tree, newer.Tree) != nil {
		return fail(NotFollowed, "the newer checkpoint of %d records is not consistent with the file's of %d: the history was rewritten", newer.Size, old.Size)
	}
	c.say("the newer checkpoint of %s, of %d records, is consistent with the file's: its records are unchanged", l.Name, newer.Size)
	return nil
}
