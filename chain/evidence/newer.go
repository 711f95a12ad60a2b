package evidence

import (
	"slices"

	"attestd/chain/tlog"
)

// Newer is a checkpoint of a log that is younger than a file, with the proof that the file's
// checkpoint is its beginning: what GET /v1/log/{logId}/consistency answers.
type Newer struct {
	From       int64 // the size from which Proof leads
	Proof      []tlog.Hash
	Checkpoint []byte // signed
}

// CheckNewer is Check, and then holds the checkpoint of the file against a newer one: a history
// that was written anew since has no proof.
func CheckNewer(src []byte, n Newer, t Trust) Verdict {
	c := newChecker(t)
	err := c.check(src)
	if err == nil {
		err = c.newer(n)
	}
	return c.verdict(err)
}

// newer takes a newer checkpoint of the key that signed those of the file: another key's says
// nothing that the file could show.
func (c *checker) newer(n Newer) error {
	newer, _, err := tlog.ParseSignedCheckpoint(n.Checkpoint)
	if err != nil {
		return fail(NotFollowed, "the newer checkpoint: %v", err)
	}
	at := slices.IndexFunc(c.file.Logs, func(l Log) bool { return l.Origin == newer.Origin })
	if at < 0 {
		return fail(NotFollowed, "the newer checkpoint is of the log %q, which is none of the file", newer.Origin)
	}
	l := c.file.Logs[at]
	old, ok := c.notes[l.Name]
	if !ok {
		return fail(NotFollowed, "the file has no checkpoint of %s to compare", l.Name)
	}
	key := l.vkey(c.file.Keys[len(c.file.Keys)-1])
	if _, _, err := tlog.OpenCheckpoint(n.Checkpoint, key); err != nil {
		return fail(NotFollowed, "the key that signed the file's checkpoints has not signed the newer one; after a change of keys, compare with a newer evidence file's")
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
		return fail(NotFollowed, "the proof leads from %d records, and the file's checkpoint has %d", n.From, old.Size)
	}
	if tlog.CheckConsistency(n.Proof, old.Tree, newer.Tree) != nil {
		return fail(NotFollowed, "the newer checkpoint, of %d records, does not follow from the file's of %d: the history was written anew", newer.Size, old.Size)
	}
	c.say("the newer checkpoint of %s, of %d records, follows from that of the file: nothing of it was changed since", l.Name, newer.Size)
	return nil
}
