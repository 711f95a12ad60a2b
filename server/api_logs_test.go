package server_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/chain"
	"attestd/server"
	"attestd/tlog"
)

// actions is what GET /v1/logs says of a company's log.
type actions struct {
	Log, LogID, Origin string
	VKeys              []string
	Size               int64
	MerkleRoot, Root   string
}

func (c caller) actions(t testing.TB) actions {
	t.Helper()
	var body struct{ Logs []actions }
	c.do(t, "GET /v1/logs", "").status(200).into(&body)
	if len(body.Logs) != 1 || body.Logs[0].Log != "actions" {
		t.Fatalf("logs: %+v", body)
	}
	return body.Logs[0]
}

// checkpoint fetches the newest checkpoint and opens it with the log's own key.
func (c caller) checkpoint(t testing.TB, log actions) tlog.Checkpoint {
	t.Helper()
	r := c.do(t, "GET /v1/log/"+log.LogID+"/checkpoint", "").status(200).sets("Content-Type: text/plain; charset=utf-8", "Cache-Control: private, no-cache")
	vkey, err := tlog.ParseVKey(log.VKeys[0])
	must(t, err)
	checkpoint, _, err := tlog.OpenCheckpoint(r.raw, vkey)
	must(t, err)
	return checkpoint
}

// leaves are the leaf hashes of a chain as an auditor computes them, from the records alone.
func (c caller) leaves(t testing.TB) (leaves []tlog.Hash) {
	t.Helper()
	digest := tlog.KeyDigest(c.publicKey(t))
	for _, r := range c.checkChain(t) {
		hash, err := hex.DecodeString(r.Hash)
		must(t, err)
		signature, err := b64.DecodeString(r.Signature)
		must(t, err)
		leaf := tlog.NewLeaf([32]byte(hash), [ed25519.SignatureSize]byte(signature), digest)
		leaves = append(leaves, leaf.Hash())
	}
	return leaves
}

// The log is that of the records: what an auditor computes of them is what the checkpoint signs, the tiles hold and the proofs lead to.
func TestLogIsThatOfTheRecords(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	log := acme.actions(t)
	if want := "attestd.local/v1/log/" + log.LogID; log.Origin != want || len(log.LogID) != 32 || strings.Contains(log.Origin, "acme") {
		t.Errorf("origin %s, want %s", log.Origin, want)
	}
	if c := acme.checkpoint(t, log); c.Size != 0 || c.Root != tlog.EmptyRoot() || c.Origin != log.Origin {
		t.Errorf("checkpoint of an empty log: %+v", c)
	}
	acme.attestMany(t, 300)
	leaves := acme.leaves(t)
	// The proof of the last record brings a checkpoint that covers it, however short ago another was signed.
	vkey, err := tlog.ParseVKey(log.VKeys[0])
	must(t, err)
	for _, i := range []int{299, 0, 255, 256} {
		r := acme.do(t, fmt.Sprintf("GET /v1/log/%s/proof/%d", log.LogID, i), "").status(200).sets("Content-Type: text/plain; charset=utf-8")
		proof, err := tlog.ParseProof(r.raw)
		must(t, err)
		if _, err := proof.Check(leaves[i], vkey); err != nil || proof.Index != int64(i) {
			t.Errorf("proof of %d: %v", i, err)
		}
		if _, err := proof.Check(leaves[i^1], vkey); err == nil {
			t.Errorf("the proof of %d holds for another record", i)
		}
	}
	log, head := acme.actions(t), acme.checkpoint(t, log)
	tree, _ := tlog.Frontier{}.Append(leaves...)
	if root := tree.Root(); head.Size != 300 || head.Root != root || log.Root != hex.EncodeToString(root[:]) || log.Size != 300 {
		t.Errorf("checkpoint %+v, log %+v, computed root %x", head, log, root)
	}
	if verified := acme.do(t, "GET /v1/verify", "").status(200).str("merkleRoot"); log.MerkleRoot != verified {
		t.Errorf("merkleRoot %s, verify says %s", log.MerkleRoot, verified)
	}

	tile := func(path string) []byte {
		return acme.do(t, "GET /v1/log/"+log.LogID+"/tile/"+path, "").status(200).
			sets("Content-Type: application/octet-stream", "Cache-Control: private, max-age=31536000, immutable").raw
	}
	full, rest, top := tile("0/000"), tile("0/001.p/44"), tile("1/000.p/1")
	for i, leaf := range leaves {
		if got := append(full, rest...)[i*32 : i*32+32]; string(got) != string(leaf[:]) {
			t.Fatalf("leaf %d of the tiles is %x, want %x", i, got, leaf)
		}
	}
	first, _ := tlog.Frontier{}.Append(leaves[:256]...)
	if root := first.Root(); string(top) != string(root[:]) {
		t.Errorf("tile 1/000.p/1 is %x, want %x", top, root)
	}
	entries, err := tlog.ParseBundle(tile("entries/001.p/44"), 44)
	must(t, err)
	for i, entry := range entries {
		leaf := tlog.Leaf(entry)
		if leaf.Hash() != leaves[256+i] {
			t.Errorf("entry %d is not the record's leaf", 256+i)
		}
	}
}

// What is not in its one form, not there yet or not the company's own is 404, and never anything of another's.
func TestLogsRefuse(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	acme.attestMany(t, 3)
	globex.attestMany(t, 3)
	own, theirs := acme.actions(t).LogID, globex.actions(t).LogID
	for _, path := range []string{
		"0/0", "0/000", "0/000.p/0", "0/000.p/4", "0/000.p/03", "0/000.p/256", "0/x000/000", "0/001.p/1", "1/000.p/1", "-1/000.p/1", "64/000", "entries/000", "entries/000.p/4", "data/000", "0", "x",
	} {
		acme.do(t, "GET /v1/log/"+own+"/tile/"+path, "").gets(404, `{"error":"No such tile"}`)
	}
	for _, path := range []string{"/checkpoint", "/tile/0/000.p/1", "/tile/entries/000.p/1", "/proof/0"} {
		acme.do(t, "GET /v1/log/"+theirs+path, "").gets(404, `{"error":"Log not found: `+theirs+`"}`)
		acme.do(t, "GET /v1/log/acme"+path, "").gets(404, `{"error":"Log not found: acme"}`)
		s.anyone().do(t, "GET /v1/log/"+own+path, "").status(401)
	}
	acme.do(t, "GET /v1/log/"+own+"/proof/3", "").gets(404, `{"error":"Index out of bounds: …"}`)
	acme.do(t, "GET /v1/log/"+own+"/proof/x", "").gets(400, `{"error":"…"}`)
	for _, query := range []string{"", "?from=0", "?to=1", "?from=2&to=1", "?from=0&to=4", "?from=-1&to=1", "?from=x&to=1"} {
		acme.do(t, "GET /v1/consistency"+query, "").gets(400, `{"error":"…from and to…"}`)
	}
}

// Each pair of sizes is consistent: an auditor who kept an older root of the specified tree can show that it is the beginning of the newer.
func TestConsistencyOfTheChain(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	acme.attestMany(t, 20)
	for from := range 21 {
		for to := from; to <= 20; to++ {
			var answer struct {
				From, To         int64
				FromRoot, ToRoot string
				Proof            []string
			}
			acme.do(t, fmt.Sprintf("GET /v1/consistency?from=%d&to=%d", from, to), "").status(200).into(&answer)
			c := chain.Consistency{From: answer.From, To: answer.To, FromRoot: parseHash(t, answer.FromRoot), ToRoot: parseHash(t, answer.ToRoot)}
			for _, h := range answer.Proof {
				c.Proof = append(c.Proof, parseHash(t, h))
			}
			if !c.Holds() {
				t.Fatalf("from %d to %d: %+v does not hold", from, to, answer)
			}
			if to == 20 {
				if root := acme.do(t, "GET /v1/verify", "").status(200).str("merkleRoot"); root != answer.ToRoot {
					t.Fatalf("toRoot %s, verify says %s", answer.ToRoot, root)
				}
			}
		}
	}
}

func parseHash(t testing.TB, text string) (h chain.Hash) {
	t.Helper()
	raw, err := hex.DecodeString(text)
	must(t, err)
	copy(h[:], raw)
	return h
}

// Who asks for the proof of a record that there is not has nothing signed for it: a checkpoint costs a signature and a write.
func TestNoCheckpointForNoRecord(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	log := acme.actions(t)
	for range 10 { // a slow machine takes longer than the second after which a checkpoint is signed again, and rightly so
		began := time.Now()
		acme.attestMany(t, 1)
		before := acme.checkpoint(t, log).Size
		acme.attestMany(t, 1)
		acme.do(t, "GET /v1/log/"+log.LogID+"/proof/999", "").gets(404, `{"error":"Index out of bounds: …"}`)
		after := acme.checkpoint(t, log).Size
		if time.Since(began) < time.Second {
			if after != before {
				t.Errorf("the checkpoint of %d became one of %d", before, after)
			}
			return
		}
	}
	t.Error("no three answers within a second")
}

// Whoever asks, and however many: a log never publishes two checkpoints of one size, and never goes back; what it has published stays over a
// restart, where the host of new logs may be another one.
func TestCheckpointsOnlyGrow(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	log := acme.actions(t)
	var mu sync.Mutex
	published := map[int64]string{}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			last := int64(0)
			for range 20 {
				acme.attestMany(t, 1)
				r := acme.do(t, "GET /v1/log/"+log.LogID+"/checkpoint", "").status(200)
				c, _, err := tlog.ParseSignedCheckpoint(r.raw)
				must(t, err)
				mu.Lock()
				if other, ok := published[c.Size]; ok && other != string(r.raw) || c.Size < last {
					t.Errorf("size %d after %d: %s, and %s", c.Size, last, r.raw, other)
				}
				published[c.Size] = string(r.raw)
				mu.Unlock()
				last = c.Size
			}
		})
	}
	group.Wait()
	kept := acme.checkpoint(t, log)
	s.stop()
	again := startOn(t, s.path, s.store.Domain(), func(c *server.Config) { c.BaseURL = "https://elsewhere.example" })
	acme.service = again
	if now := acme.checkpoint(t, log); now.Size < kept.Size || acme.actions(t).Origin != log.Origin {
		t.Errorf("after a restart: %+v, before %+v", now, kept)
	}
}

// A file that takes no more keeps nothing from those who ask for what was published: a checkpoint stays true when its key has ended. What
// a stolen key may have signed is given to nobody, neither alone nor in a proof.
func TestCheckpointsWithoutADisk(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a file that is open cannot be moved")
	}
	for _, compromised := range []bool{false, true} {
		s := start(t)
		acme := s.company(t, "acme")
		acme.attestMany(t, 2)
		log := acme.actions(t)
		path := "GET /v1/log/" + log.LogID
		published := acme.do(t, path+"/checkpoint", "").status(200).raw
		leaf := acme.leaves(t)[0]
		acme.do(t, rotateKeys, fmt.Sprintf(`{"compromised":%v}`, compromised)).status(200)
		acme.attestMany(t, 1)
		must(t, os.Rename(s.path, s.path+".moved"))

		acme.do(t, path+"/proof/2", "").status(503) // the published one does not cover it
		checkpoint, proof := acme.do(t, path+"/checkpoint", ""), acme.do(t, path+"/proof/0", "")
		if compromised {
			checkpoint.gets(503, `{"error":"…","code":"FILE_CHANGED","requestId":"…"}`)
			proof.gets(503, `{"error":"…","code":"FILE_CHANGED","requestId":"…"}`)
		} else {
			equal(t, "checkpoint", string(checkpoint.status(200).raw), string(published))
			read, err := tlog.ParseProof(proof.status(200).raw)
			must(t, err)
			vkey, err := tlog.ParseVKey(acme.actions(t).VKeys[1])
			must(t, err)
			if _, err := read.Check(leaf, vkey); err != nil {
				t.Errorf("the proof under the former key: %v", err)
			}
		}
		must(t, os.Rename(s.path+".moved", s.path))
	}
}
