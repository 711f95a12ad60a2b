package server_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/torchwood"

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/chain/witness"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/store/storetest"
)

// logged is the answer of GET /v1/logs about one log.
type logged struct {
	Log, LogID, Origin string
	VKeys              []string
	Size               int64
	MerkleRoot, Root   string
}

func (c caller) actions(t testing.TB) logged { return c.logNamed(t, "actions") }

func (c caller) logNamed(t testing.TB, name string) logged {
	t.Helper()
	var body struct{ Logs []logged }
	c.do(t, "GET /v1/logs", "").status(200).into(&body)
	if len(body.Logs) != 2 || body.Logs[0].Log != "actions" || body.Logs[1].Log != "control" {
		t.Fatalf("logs: %+v", body)
	}
	return body.Logs[slices.IndexFunc(body.Logs, func(l logged) bool { return l.Log == name })]
}

// grow adds n records to a log: to the actions through the API, and to control in the way in which
// the store adds one to a change.
func (c caller) grow(t testing.TB, log string, n int) {
	t.Helper()
	if log == "actions" {
		c.attestMany(t, n)
		return
	}
	company, err := c.store.Companies.Get(t.Context(), c.id)
	must.OK(t, err)
	for i := range n {
		payload := fmt.Appendf(nil, `{"actionType":"control","agentId":"service","companyId":%q,"log":"control","payload":{"n":%d}}`, c.id, i)
		_, err := c.store.Append(t.Context(), chain.Draft{Chain: company.Control.Chain, Payload: payload, Canonical: payload})
		must.OK(t, err)
	}
}

// fill adds records to a log until it has n; a control log begins with some.
func (c caller) fill(t testing.TB, log string, n int) {
	t.Helper()
	has := int(c.logNamed(t, log).Size)
	if has > n {
		t.Fatalf("%s has %d records already", log, has)
	}
	c.grow(t, log, n-has)
}

// checkpoint fetches the newest checkpoint and opens it with the log's own key.
func (c caller) checkpoint(t testing.TB, log logged) tlog.Checkpoint {
	t.Helper()
	r := c.do(t, "GET /v1/log/"+log.LogID+"/checkpoint", "").status(200).sets("Content-Type: text/plain; charset=utf-8", "Cache-Control: private, no-cache")
	vkey, err := tlog.ParseVKey(log.VKeys[0])
	must.OK(t, err)
	checkpoint, _, err := tlog.OpenCheckpoint(r.raw, vkey)
	must.OK(t, err)
	return checkpoint
}

// leaves returns the leaf hashes of a log as an auditor computes them, from the records alone.
func (c caller) leaves(t testing.TB, log string) (leaves []tlog.Hash) {
	t.Helper()
	digest := tlog.KeyDigest(c.publicKey(t))
	for _, r := range c.checkLog(t, log) {
		leaves = append(leaves, leafOf(t, r, digest))
	}
	return leaves
}

func leafOf(t testing.TB, r record, key [32]byte) tlog.Hash {
	t.Helper()
	hash, err := hex.DecodeString(r.Hash)
	must.OK(t, err)
	signature, err := b64.DecodeString(r.Signature)
	must.OK(t, err)
	leaf := tlog.NewLeaf([32]byte(hash), [ed25519.SignatureSize]byte(signature), key)
	return leaf.Hash()
}

// For each log, an auditor with a reader's key computes from the records the tree that the
// checkpoint signs, the tiles contain and the proofs lead to. The other log has equally many but
// different records.
func TestLogIsThatOfTheRecords(t *testing.T) {
	t.Parallel()
	for log, other := range map[string]string{"actions": "control", "control": "actions"} {
		t.Run(log, func(t *testing.T) {
			t.Parallel()
			acme := start(t).company(t, "acme")
			acme.grow(t, other, 20)
			testLog(t, acme, log)
		})
	}
}

func testLog(t *testing.T, acme caller, name string) {
	admin := acme
	acme = acme.create(t, "reader", "")
	log := acme.logNamed(t, name)
	if want := "attestd.local/v1/log/" + log.LogID; log.Origin != want || len(log.LogID) != 32 || strings.Contains(log.Origin, "acme") {
		t.Errorf("origin %s, want %s", log.Origin, want)
	}
	leaves := acme.leaves(t, name)
	tree, _ := tlog.Frontier{}.Append(leaves...)
	if c := acme.checkpoint(t, log); c.Size != int64(len(leaves)) || c.Root != tree.Root() || c.Origin != log.Origin || (len(leaves) == 0) != (name == "actions") {
		t.Errorf("checkpoint of a log in which is only that there is a company: %+v", c)
	}
	admin.fill(t, name, 300)
	leaves = acme.leaves(t, name)
	// A proof of the last record brings a checkpoint that covers it, however recently another was
	// signed.
	vkey, err := tlog.ParseVKey(log.VKeys[0])
	must.OK(t, err)
	for _, i := range []int{299, 0, 255, 256} {
		r := acme.do(t, fmt.Sprintf("GET /v1/log/%s/proof/%d", log.LogID, i), "").status(200).sets("Content-Type: text/plain; charset=utf-8")
		proof, err := tlog.ParseProof(r.raw)
		must.OK(t, err)
		if _, err := proof.Check(leaves[i], vkey); err != nil || proof.Index != int64(i) {
			t.Errorf("proof of %d: %v", i, err)
		}
		if _, err := proof.Check(leaves[i^1], vkey); err == nil {
			t.Errorf("the proof of %d holds for another record", i)
		}
	}
	log, head := acme.logNamed(t, name), acme.checkpoint(t, log)
	tree, _ = tlog.Frontier{}.Append(leaves...)
	if root := tree.Root(); head.Size != 300 || head.Root != root || log.Root != hex.EncodeToString(root[:]) || log.Size != 300 {
		t.Errorf("checkpoint %+v, log %+v, computed root %x", head, log, root)
	}
	if verified := acme.do(t, "GET /v1/verify?log="+name, "").status(200).str("merkleRoot"); log.MerkleRoot != verified {
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
	for i, leaf := range bundledLeaves(t, tile("entries/001.p/44"), 44) {
		if leaf.Hash() != leaves[256+i] {
			t.Errorf("entry %d is not the record's leaf", 256+i)
		}
	}
}

// bundledLeaves reads an entry bundle, which must hold exactly width leaves.
func bundledLeaves(t *testing.T, bundle []byte, width int) (leaves []tlog.Leaf) {
	t.Helper()
	for len(bundle) > 0 {
		entry, rest, err := torchwood.ReadTileEntry(bundle)
		if err != nil || len(entry) != tlog.LeafSize {
			t.Fatalf("entry %d has %d bytes: %v", len(leaves), len(entry), err)
		}
		leaves, bundle = append(leaves, tlog.Leaf(entry)), rest
	}
	if len(leaves) != width {
		t.Fatalf("the bundle has %d entries, want %d", len(leaves), width)
	}
	return leaves
}

// A path that is not in its single valid form, that does not exist yet or that belongs to another
// company is answered 404 and reveals nothing of the other company.
func TestLogsRefuse(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	for _, log := range []string{"actions", "control"} {
		acme.fill(t, log, 3)
		globex.fill(t, log, 3)
		testLogRefuses(t, acme, acme.logNamed(t, log).LogID, globex.logNamed(t, log).LogID)
	}
	for _, call := range []string{"GET /v1/chain", "GET /v1/verify", "GET /v1/proof/0", "GET /v1/consistency?from=0&to=0"} {
		query := call + "?"
		if strings.Contains(call, "?") {
			query = call + "&"
		}
		for _, log := range []string{"", "Control", "other", "control%20", acme.logNamed(t, "control").LogID} {
			acme.do(t, query+"log="+log, "").gets(400, `{"error":"Invalid query parameter: log must be actions or control"}`)
		}
		s.anyone().do(t, query+"log=control", "").status(401)
		equal(t, call, string(acme.do(t, query+"log=actions", "").status(200).raw), string(acme.do(t, call, "").status(200).raw))
	}
}

func testLogRefuses(t *testing.T, acme caller, own, theirs string) {
	for _, path := range []string{
		"0/0", "0/000", "0/000.p/0", "0/000.p/4", "0/000.p/03", "0/000.p/256", "0/x000/000", "0/001.p/1", "1/000.p/1", "-1/000.p/1", "64/000", "entries/000", "entries/000.p/4", "data/000", "0", "x",
	} {
		acme.do(t, "GET /v1/log/"+own+"/tile/"+path, "").gets(404, `{"error":"No such tile"}`)
	}
	for _, path := range []string{"/checkpoint", "/tile/0/000.p/1", "/tile/entries/000.p/1", "/proof/0", "/consistency?from=0"} {
		acme.do(t, "GET /v1/log/"+theirs+path, "").gets(404, `{"error":"Log not found: `+theirs+`"}`)
		acme.do(t, "GET /v1/log/acme"+path, "").gets(404, `{"error":"Log not found: acme"}`)
		acme.anyone().do(t, "GET /v1/log/"+own+path, "").status(401)
	}
	acme.do(t, "GET /v1/log/"+own+"/proof/3", "").gets(404, `{"error":"Index out of bounds: …"}`)
	acme.do(t, "GET /v1/log/"+own+"/proof/x", "").gets(400, `{"error":"…"}`)
	for _, query := range []string{"", "?from=", "?from=4", "?from=-1", "?from=x"} {
		acme.do(t, "GET /v1/log/"+own+"/consistency"+query, "").gets(400, `{"error":"from must be a whole number up to the log's size, which is …"}`)
	}
	for _, query := range []string{"", "?from=0", "?to=1", "?from=2&to=1", "?from=0&to=4", "?from=-1&to=1", "?from=x&to=1"} {
		acme.do(t, "GET /v1/consistency"+query, "").gets(400, `{"error":"…from and to…"}`)
	}
}

// An attestation is always about a record of the action log, even if the request also names another
// log.
func TestAttestNeverWritesToControl(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	acme := start(t).company(t, "acme")
	before := acme.logNamed(t, "control")
	acme.do(t, "POST /v1/attest?log=control", `{"agentId":"bot","actionType":"x","payload":1,"log":"control"}`).status(201)
	equal(t, "control log", fmt.Sprint(acme.logNamed(t, "control")), fmt.Sprint(before))
	equal(t, "actions", acme.actions(t).Size, 1)
}

// A client that has a checkpoint can verify, with the answer alone, that the log has only grown
// since, from every size.
func TestConsistencyWithTheNewestCheckpoint(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	acme := start(t).company(t, "acme")
	for _, name := range []string{"actions", "control"} {
		log := acme.logNamed(t, name)
		stored := []tlog.Checkpoint{acme.checkpoint(t, log)}
		for size := int(log.Size) + 1; size < 12; size++ {
			acme.fill(t, name, size)
			// The answer then has a checkpoint that covers it.
			acme.do(t, fmt.Sprintf("GET /v1/log/%s/proof/%d", log.LogID, size-1), "").status(200)
			stored = append(stored, acme.checkpoint(t, log))
		}
		for _, old := range stored {
			answer := acme.do(t, fmt.Sprintf("GET /v1/log/%s/consistency?from=%d", log.LogID, old.Size), "").status(200)
			update, err := witness.ParseRequest(answer.raw)
			must.OK(t, err)
			vkey, err := tlog.ParseVKey(log.VKeys[0])
			must.OK(t, err)
			newest, _, err := tlog.OpenCheckpoint(update.Checkpoint, vkey)
			must.OK(t, err)
			if err := tlog.CheckConsistency(update.Proof, old.Tree, newest.Tree); err != nil || update.Old != old.Size || newest.Size != 11 {
				t.Errorf("%s from %d to %d: %v", name, old.Size, newest.Size, err)
			}
			other := old.Tree
			other.Root[0] ^= 1
			if err := tlog.CheckConsistency(update.Proof, other, newest.Tree); err == nil && old.Size > 0 {
				t.Errorf("%s: another tree of size %d is consistent", name, old.Size)
			}
		}
	}
}

// Each pair of sizes is consistent: an auditor with an older root of the specified tree can show
// that its tree is the beginning of the newer one.
func TestConsistencyOfTheChain(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	acme := start(t).company(t, "acme")
	for _, log := range []string{"actions", "control"} {
		acme.fill(t, log, 20)
		testConsistency(t, acme, log)
	}
}

func testConsistency(t *testing.T, acme caller, log string) {
	for from := range 21 {
		for to := from; to <= 20; to++ {
			var answer struct {
				From, To         int64
				FromRoot, ToRoot string
				Proof            []string
			}
			acme.do(t, fmt.Sprintf("GET /v1/consistency?from=%d&to=%d&log=%s", from, to, log), "").status(200).into(&answer)
			c := chain.Consistency{From: answer.From, To: answer.To, FromRoot: parseHash(t, answer.FromRoot), ToRoot: parseHash(t, answer.ToRoot)}
			for _, h := range answer.Proof {
				c.Proof = append(c.Proof, parseHash(t, h))
			}
			if !c.Holds() {
				t.Fatalf("from %d to %d: %+v does not hold", from, to, answer)
			}
			if to == 20 {
				if root := acme.do(t, "GET /v1/verify?log="+log, "").status(200).str("merkleRoot"); root != answer.ToRoot {
					t.Fatalf("toRoot %s, verify says %s", answer.ToRoot, root)
				}
			}
		}
	}
}

func parseHash(t testing.TB, text string) (h chain.Hash) {
	t.Helper()
	raw, err := hex.DecodeString(text)
	must.OK(t, err)
	copy(h[:], raw)
	return h
}

// A request for the proof of a record that does not exist causes no signature, because a checkpoint
// costs a signature and a write.
func TestProofOfMissingRecordSignsNoCheckpoint(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	log := acme.actions(t)
	// A slow machine may take longer than the second after which a checkpoint may be signed again;
	// then the next round may meet the one that was signed before it began.
	for round := range int64(10) {
		began := time.Now()
		acme.attestMany(t, 1)
		before := acme.checkpoint(t, log).Size
		fresh := before == 2*round+1
		acme.attestMany(t, 1)
		acme.do(t, "GET /v1/log/"+log.LogID+"/proof/999", "").gets(404, `{"error":"Index out of bounds: …"}`)
		after := acme.checkpoint(t, log).Size
		if fresh && time.Since(began) < time.Second {
			if after != before {
				t.Errorf("the checkpoint of %d became one of %d", before, after)
			}
			return
		}
	}
	t.Error("no three answers within a second")
}

// Under any number of concurrent requests a log never publishes two checkpoints of one size and
// never goes back. Published checkpoints survive a restart, even if new logs have another host in
// their names.
func TestCheckpointsOnlyGrow(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
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
				must.OK(t, err)
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
	stored := acme.checkpoint(t, log)
	s.stop()
	again := startOn(t, s.path, s.store.Domain(), func(c *server.Config) { c.BaseURL = "https://elsewhere.example" })
	acme.service = again
	if now := acme.checkpoint(t, log); now.Size < stored.Size || acme.actions(t).Origin != log.Origin {
		t.Errorf("after a restart: %+v, before %+v", now, stored)
	}
}

// Published checkpoints can be fetched even if the file accepts no writes: a checkpoint stays true
// when its key has ended. No caller gets a checkpoint that a stolen key may have signed, neither
// alone nor in a proof.
func TestCheckpointsWithoutADisk(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	storetest.AboutFile(t)
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
		leaf := acme.leaves(t, "actions")[0]
		acme.do(t, rotateKeys, fmt.Sprintf(`{"compromised":%v}`, compromised)).status(200)
		acme.attestMany(t, 1)
		must.OK(t, os.Rename(s.path, s.path+".moved"))

		acme.do(t, path+"/proof/2", "").status(503) // the published one does not cover it
		checkpoint, proof := acme.do(t, path+"/checkpoint", ""), acme.do(t, path+"/proof/0", "")
		if compromised {
			checkpoint.gets(503, `{"error":"…","code":"FILE_CHANGED","requestId":"…"}`)
			proof.gets(503, `{"error":"…","code":"FILE_CHANGED","requestId":"…"}`)
		} else {
			equal(t, "checkpoint", string(checkpoint.status(200).raw), string(published))
			read, err := tlog.ParseProof(proof.status(200).raw)
			must.OK(t, err)
			vkey, err := tlog.ParseVKey(acme.actions(t).VKeys[1])
			must.OK(t, err)
			if _, err := read.Check(leaf, vkey); err != nil {
				t.Errorf("the proof under the former key: %v", err)
			}
		}
		must.OK(t, os.Rename(s.path+".moved", s.path))
	}
}
