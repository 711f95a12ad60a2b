package evidence_test

import (
	"bytes"
	"io"
	"testing"

	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/crypto/jose"
	"attestd/internal/must"
)

// longSession is the file of a session of 10,000 records.
func longSession(b *testing.B, algorithm string) (c *company, kid string, text []byte) {
	b.Helper()
	c = newCompany(b)
	key := agentKey(b, algorithm, 1)
	kid = c.enrol(agentID, key.Key(), nil)
	c.states(key, "run-1", 10_000, true)
	indexes := make([]int64, len(c.logs[0].records))
	for i := range indexes {
		indexes[i] = int64(i)
	}
	return c, kid, c.session(kid, "run-1", []string{kid}, indexes...)
}

// The check of a session of 10,000 records takes at most 2 s.
func BenchmarkCheckSession(b *testing.B) {
	for _, algorithm := range []string{jose.EdDSA, jose.ES256} {
		b.Run(algorithm, func(b *testing.B) {
			_, kid, text := longSession(b, algorithm)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				v := evidence.CheckSession(bytes.NewReader(text), evidence.Trust{Fingerprint: fingerprint(0), AgentKey: kid})
				if v.Outcome != evidence.Holds || v.Session.State != evidence.Complete {
					b.Fatalf("%+v", v)
				}
			}
		})
	}
}

// A session of 10,000 records, with proofs that are there, is written within 300 ms.
func BenchmarkWriteSession(b *testing.B) {
	c, kid, _ := longSession(b, jose.EdDSA)
	checkpoint := c.checkpoint(0)
	read, _, err := tlog.ParseSignedCheckpoint(checkpoint)
	must.OK(b, err)
	proofs := make([][]tlog.Hash, read.Size)
	for i := range proofs {
		proofs[i], err = tlog.ProveInclusion(b.Context(), c.logs[0], read.Tree, int64(i))
		must.OK(b, err)
	}
	f := c.file(0, 0, checkpoint)
	f.AgentKey = &evidence.AgentKey{Entries: c.keyEntries(c.checkpoint(1), kid)}
	for b.Loop() {
		w, err := evidence.NewSessionWriter(io.Discard, &evidence.SessionFile{
			AgentID: agentID, KeyID: kid, ID: "run-1", Records: read.Size, Checkpoint: string(checkpoint), File: f,
		})
		must.OK(b, err)
		for i := range c.logs[0].records {
			must.OK(b, w.Write(&c.logs[0].records[i], proofs[i]))
		}
		must.OK(b, w.Close())
	}
}
