package interop

import (
	"net/http"
	"testing"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"

	"attestd/internal/must"
)

// A witness continues to cosign after a rotation of the company's key once its operator has added
// the new vkey from GET /v1/logs for the origin. Without it, the witness refuses checkpoints by the
// new key. After a theft it refuses those by the old key, once its vkey is removed.
func TestWitnessAcrossRotations(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	w := newWitness(t, c)
	old := int64(0)
	// cosigned lets the witness cosign the log, and checks the result with a policy of the log's
	// vkeys and the witness.
	cosigned := func() (checkpoint string) {
		t.Helper()
		proof := tlog.TreeProof{}
		if old > 0 && old < c.log.Size {
			proof = c.consistency(t, old, c.log.Size)
		}
		checkpoint = c.checkpoint(t)
		status, cosignature := w.add(t, old, proof, checkpoint)
		if status != http.StatusOK {
			t.Fatalf("%d to %d: %d %s", old, c.log.Size, status, cosignature)
		}
		old = c.log.Size
		if _, _, err := torchwood.VerifyCheckpoint([]byte(checkpoint+cosignature), c.policy(t, w.verifier)); err != nil {
			t.Errorf("the cosigned checkpoint of %d: %v", old, err)
		}
		return checkpoint + cosignature
	}
	refuses := func(checkpoint string) {
		t.Helper()
		if status, body := w.add(t, old, tlog.TreeProof{}, checkpoint); status != http.StatusForbidden {
			t.Errorf("a checkpoint of a key that the witness does not know: %d %s", status, body)
		}
	}

	c.grow(t, 100)
	first := cosigned()
	c.rotate(t, false)
	refuses(c.checkpoint(t))
	w.addKey(t, c.log.Origin, c.log.VKeys[0])
	second := cosigned() // of the same size, with the new key
	c.grow(t, 300)
	third := cosigned()
	policies := make([]torchwood.Policy, len(c.log.VKeys))
	file := ""
	for i, vkey := range c.log.VKeys {
		line := "log " + vkey + "\n"
		file += line
		policy, err := torchwood.ParsePolicy([]byte(line + "quorum none\n"))
		must.OK(t, err)
		policies[i] = policy
	}
	// torchwood 0.9 requires a signature by the key of every log line in a policy, so two keys of
	// one log need two policies.
	both, err := torchwood.ParsePolicy([]byte(file + "quorum none\n"))
	must.OK(t, err)
	for i, checkpoint := range []string{first, second, third} {
		if _, _, err := torchwood.VerifyCheckpoint([]byte(checkpoint), torchwood.ThresholdPolicy(1, policies...)); err != nil {
			t.Errorf("checkpoint %d by the policies of all vkeys: %v", i, err)
		}
		if _, _, err := torchwood.VerifyCheckpoint([]byte(checkpoint), both); err == nil {
			t.Errorf("checkpoint %d holds by one policy of two log lines: the reference says that it does not", i)
		}
	}

	thief := c.log.VKeys
	c.rotate(t, true)
	w.addKey(t, c.log.Origin, c.log.VKeys[0])
	for _, vkey := range thief {
		w.deleteKey(t, c.log.Origin, vkey)
	}
	refuses(third)
	c.grow(t, 301)
	cosigned()
	if _, _, err := torchwood.VerifyCheckpoint([]byte(third), c.policy(t, w.verifier)); err == nil {
		t.Error("a checkpoint of a compromised key holds for who trusts the vkeys that are listed")
	}
}
