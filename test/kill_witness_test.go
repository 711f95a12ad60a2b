package test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	modtlog "golang.org/x/mod/sumdb/tlog"

	"attestd/chain/tlog"
	"attestd/chain/witness"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// watched is a foreign log that has two histories.
const watched = "log.example/watched"

var watchedKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))

// history is one of them, in memory.
type history []tlog.Hash

func newHistory(t *testing.T, name string, size int64) (h history) {
	t.Helper()
	for i := range size {
		stored, err := modtlog.StoredHashes(i, []byte(name+strconv.FormatInt(i, 10)), h)
		must.OK(t, err)
		h = append(h, stored...)
	}
	return h
}

func (h history) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		hashes[i] = h[index]
	}
	return hashes, nil
}

// request asks for a cosignature from one size to another, which has this root.
func (h history) request(from, to int64) (body string, root tlog.Hash, err error) {
	r := witness.Request{Old: from}
	if from > 0 && from < to {
		if r.Proof, err = modtlog.ProveTree(to, from, h); err != nil {
			return "", root, err
		}
	}
	if root, err = modtlog.TreeHash(to, h); err == nil {
		r.Checkpoint, err = tlog.Checkpoint{Origin: watched, Tree: tlog.Tree{Size: to, Root: root}}.Sign(watchedKey)
	}
	return string(r.Format()), root, err
}

// A witness that is killed again and again, while a hundred callers ask it at a time for
// cosignatures over two histories of one log, never signs a smaller tree than one that it has
// answered with, and never two roots of one size.
func TestKilledWitnessNeverRollsBack(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	rounds := testenv.Rounds(2, 20)
	const most = 20_000
	histories := []history{newHistory(t, "leaf", most), newHistory(t, "another", most)}
	dir := t.TempDir()
	db, policy := storetest.New(t), filepath.Join(dir, "logs.txt")
	key := tlog.VKey{Name: watched, Type: tlog.TypeEd25519, Public: watchedKey.Public().(ed25519.PublicKey)}
	must.OK(t, os.WriteFile(policy, []byte("log "+key.String()+"\n"), 0o600))
	chance := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))

	var mu sync.Mutex
	roots := map[int64]tlog.Hash{} // of all that was answered
	var greatest int64
	for round := range rounds {
		s := serve(t, db, "--cosign-for", policy, "--rate-limits", "off")
		c := s.client(t, "")
		shown := c.shown(t)
		if shown.Size < greatest || shown.Size == greatest && greatest > 0 && shown.Root != roots[greatest] {
			t.Fatalf("round %d: %d was answered, and %+v is the latest", round, greatest, shown)
		}
		var left atomic.Int64
		left.Store(1 + chance.Int64N(150)) // answers before the kill
		var group sync.WaitGroup
		for who := range 100 {
			group.Go(func() {
				for size := shown.Size; ; {
					mu.Lock()
					least := greatest
					mu.Unlock()
					to := min(size+1+int64(who%3), most)
					body, root, err := histories[who%2].request(size, to)
					if err != nil {
						t.Error(err)
						return
					}
					status, answer, err := c.send("POST", "/v1/witness/add-checkpoint", body)
					if err != nil {
						return // it is dead
					}
					switch status {
					case 200:
						mu.Lock()
						if was, ok := roots[to]; to < least || ok && was != root {
							t.Errorf("round %d: size %d after size %d, or with another root than before", round, to, least)
						}
						roots[to], greatest = root, max(greatest, to)
						mu.Unlock()
						size = to
					case 409:
						size, err = strconv.ParseInt(strings.TrimSpace(string(answer)), 10, 64)
						if err != nil {
							t.Error(err)
							return
						}
					case 422: // the other history was first
						return
					default:
						t.Errorf("%d %s", status, answer)
						return
					}
					if left.Add(-1) == 0 {
						_ = s.kill()
					}
				}
			})
		}
		group.Wait()
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d cosigned, the last of size %d", len(roots), greatest)
}

// shown is the tree that the witness shows as the last that it has cosigned.
func (c *client) shown(t *testing.T) tlog.Tree {
	t.Helper()
	status, text, err := c.send("GET", fmt.Sprintf("/v1/witness/%x/checkpoint", sha256.Sum256([]byte(watched))), "")
	must.OK(t, err)
	if status == 404 {
		return tlog.Tree{}
	}
	checkpoint, _, err := tlog.ParseSignedCheckpoint(text)
	must.OK(t, err)
	return checkpoint.Tree
}
