package store_test

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	modtlog "golang.org/x/mod/sumdb/tlog"

	"attestd/chain/tlog"
	"attestd/chain/witness"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

const watchedOrigin = "log.example/watched"

var (
	watchedKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	cosignKey  = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, ed25519.SeedSize))
)

// watchedLog is a log in memory. Logs with different names have different leaves.
type watchedLog []tlog.Hash

func newWatchedLog(t testing.TB, name string, size int64) (l watchedLog) {
	t.Helper()
	for i := range size {
		l = append(l, got(modtlog.StoredHashes(i, []byte(name+strconv.FormatInt(i, 10)), l))(t)...)
	}
	return l
}

func (l watchedLog) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		hashes[i] = l[index]
	}
	return hashes, nil
}

func (l watchedLog) tree(t testing.TB, size int64) tlog.Tree {
	t.Helper()
	if size == 0 {
		return tlog.Tree{Root: tlog.EmptyRoot()}
	}
	return tlog.Tree{Size: size, Root: got(modtlog.TreeHash(size, l))(t)}
}

// request asks for a cosignature on the tree of one size, given an older size.
func (l watchedLog) request(t testing.TB, from, to int64) []byte {
	t.Helper()
	r := witness.Request{Old: from, Checkpoint: got(tlog.Checkpoint{Origin: watchedOrigin, Tree: l.tree(t, to)}.Sign(watchedKey))(t)}
	if from > 0 && from < to {
		r.Proof = got(modtlog.ProveTree(to, from, l))(t)
	}
	return r.Format()
}

func cosigner(t testing.TB, s *store.Store) *witness.Cosigner {
	t.Helper()
	key := tlog.VKey{Name: watchedOrigin, Type: tlog.TypeEd25519, Public: watchedKey.Public().(ed25519.PublicKey)}
	return got(witness.NewCosigner("witness.example", cosignKey, []tlog.PolicyLog{{Key: key}}, s.Cosigner.Logs()))(t)
}

// The last cosigned tree survives a restart, and only a caller who names it can replace it.
func TestCosignedLogs(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	empty, five, other, nine := tlog.Tree{Root: tlog.EmptyRoot()}, tlog.Tree{Size: 5, Root: tlog.Hash{5}}, tlog.Tree{Size: 5, Root: tlog.Hash{6}}, tlog.Tree{Size: 9, Root: tlog.Hash{9}}
	hash := sha256.Sum256([]byte(watchedOrigin))
	if _, err := s.Cosigner.Logs().Checkpoint(ctx, hash); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("before the first: %v", err)
	}
	for i, step := range []struct {
		from, to tlog.Tree
		want     bool
		latest   tlog.Tree
	}{
		{five, nine, false, empty},
		{empty, empty, true, empty},
		{empty, five, true, five},
		{empty, nine, false, five},
		{other, nine, false, five},
		{five, five, true, five},
		{five, nine, true, nine},
		{five, nine, false, nine},
	} {
		note := fmt.Sprint("checkpoint ", i)
		if ok := got(s.Cosigner.Logs().Advance(ctx, watchedOrigin, step.from, step.to, []byte(note)))(t); ok != step.want {
			t.Errorf("step %d: %v", i, ok)
		}
		if latest := got(s.Cosigner.Logs().Latest(ctx, watchedOrigin))(t); latest != step.latest {
			t.Errorf("step %d: the latest is %+v", i, latest)
		}
		if kept, err := s.Cosigner.Logs().Checkpoint(ctx, hash); step.want && (err != nil || kept != note) {
			t.Errorf("step %d: kept is %q: %v", i, kept, err)
		}
	}
	// No Cosigner asks for that.
	for from, to := range map[tlog.Tree]tlog.Tree{nine: five, {Size: 9, Root: tlog.Hash{9}}: {Size: 9, Root: tlog.Hash{8}}} {
		if _, err := s.Cosigner.Logs().Advance(ctx, watchedOrigin, from, to, nil); err == nil {
			t.Errorf("from %+v to %+v", from, to)
		}
	}
	must.OK(t, s.Close())
	s = open(t, path)
	if latest := got(s.Cosigner.Logs().Latest(ctx, watchedOrigin))(t); latest != nine {
		t.Errorf("after a restart the latest is %+v", latest)
	}
	if latest := got(s.Cosigner.Logs().Latest(ctx, "another.example"))(t); latest != empty {
		t.Errorf("the latest of another log is %+v", latest)
	}
}

// A hundred concurrent requests come over two histories of one log, then a crash at any moment: the
// write-ahead log is cut at every frame and within a frame. Everything that was answered before the
// crash is still stored, and afterwards the database never signs a smaller tree, nor a second root
// for a size, for the other history.
func TestCosignerOverCrashes(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	s, path := fresh(t)
	must.OK(t, s.Close())
	content := got(os.ReadFile(path))(t)
	s = open(t, path)
	histories := []watchedLog{newWatchedLog(t, "leaf", 64), newWatchedLog(t, "another", 64)}
	c := cosigner(t, s)

	type cosigned struct {
		tree tlog.Tree
		by   int64 // the size of the write-ahead log when it was answered
	}
	var mu sync.Mutex
	var answered []cosigned
	var group sync.WaitGroup
	for i := range 100 {
		group.Go(func() {
			h, size := histories[i%2], int64(0)
			for range 4 {
				to := min(size+1+int64(i%5), 64)
				answer, err := c.AddCheckpoint(ctx, h.request(t, size, to), now)
				if err != nil {
					t.Error(err)
					return
				}
				switch answer.Status {
				case 200:
					log := got(os.Stat(path + "-wal"))(t)
					mu.Lock()
					answered = append(answered, cosigned{h.tree(t, to), log.Size()})
					mu.Unlock()
					size = to
				case 409:
					size = got(strconv.ParseInt(strings.TrimSpace(answer.Body), 10, 64))(t)
				case 422: // the other history was first
				default:
					t.Errorf("%+v", answer)
				}
			}
		})
	}
	group.Wait()
	log := got(os.ReadFile(path + "-wal"))(t)
	must.OK(t, s.Close())
	slices.SortFunc(answered, func(a, b cosigned) int { return cmp.Compare(a.tree.Size, b.tree.Size) })
	if len(answered) < 3 {
		t.Fatalf("%d cosignatures", len(answered))
	}

	sizes := map[int64]bool{}
	for cut := range crashes(t, content, log) {
		left := got(os.Stat(cut + "-wal"))(t).Size()
		s := open(t, cut)
		c := cosigner(t, s)
		latest := got(s.Cosigner.Logs().Latest(ctx, watchedOrigin))(t)
		sizes[latest.Size] = true
		roots := map[int64]tlog.Hash{}
		for _, a := range answered {
			if a.by > left {
				continue
			}
			if roots[a.tree.Size] = a.tree.Root; a.tree.Size > latest.Size {
				t.Errorf("size %d was answered, and after a crash the latest is %d", a.tree.Size, latest.Size)
			}
		}
		for i, h := range histories {
			for _, to := range []int64{latest.Size, min(latest.Size+1, 64), 64} {
				answer := got(c.AddCheckpoint(ctx, h.request(t, latest.Size, to), now))(t)
				if answer.Status != 200 {
					continue
				}
				if was, ok := roots[to]; ok && was != h.tree(t, to).Root {
					t.Errorf("size %d has a second root after a crash, of history %d", to, i)
				}
				roots[to] = h.tree(t, to).Root
				latest.Size = to
			}
		}
		must.OK(t, s.Close())
	}
	if len(sizes) < 3 {
		t.Errorf("sizes after crashes: %v", sizes)
	}
}

// The cosigner's name and key are created once and stay.
func TestCosignerKey(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	must.OK(t, s.Close())
	stopped := func() *store.Store { return got(store.Open(ctx, path, schema(t), store.Options{Master: master()}))(t) }
	s = stopped()
	if _, _, err := s.Cosigner.Key(ctx, "a name", now); !errors.Is(err, store.ErrRefused) {
		t.Errorf("a name that is none: %v", err)
	}
	name, private, err := s.Cosigner.Key(ctx, "witness.example", now)
	must.OK(t, err)
	must.OK(t, s.Close())
	s = stopped()
	defer s.Close()
	for _, asked := range []string{"", "witness.example"} {
		again, key, err := s.Cosigner.Key(ctx, asked, now)
		if err != nil || name != "witness.example" || again != name || !key.Equal(private) {
			t.Errorf("%q: named %q: %v", asked, again, err)
		}
	}
	if _, _, err := s.Cosigner.Key(ctx, "another.example", now); !errors.Is(err, store.ErrRefused) {
		t.Errorf("another name: %v", err)
	}
	unnamed := got(store.Open(ctx, storetest.New(t), schema(t), store.Options{LogHost: "log.example:8080", Master: master()}))(t)
	defer unnamed.Close()
	if name, _, err := unnamed.Cosigner.Key(ctx, "", now); err != nil || name != "log.example:8080/witness" {
		t.Errorf("without a name it is named %q: %v", name, err)
	}
}

// The cosignature on the largest tree is stored for each witness.
func TestCosignatures(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	c, _ := company(t, s, "acme")
	cosign := func(name string, size int64) tlog.Cosignature {
		return got(tlog.Checkpoint{Origin: c.Actions.Origin, Tree: tlog.Tree{Size: size}}.Cosign(name, cosignKey, now))(t)
	}
	keep := func(name string, size int64) tlog.Cosignature {
		made := cosign(name, size)
		must.OK(t, s.Checkpoints.KeepCosignature(ctx, c.Actions.ID, size, "checkpoint", made))
		return made
	}
	keep("a", 3)
	a, b := keep("a", 5), keep("b", 5)
	keep("a", 4)
	keep("c", 4)
	if lines, witnesses, err := s.Cosignatures(ctx, c.Actions.ID, 5); err != nil || lines != a.Line+b.Line && lines != b.Line+a.Line || len(witnesses) != 2 {
		t.Errorf("of size 5: %q", lines)
	}
	if lines, _, err := s.Cosignatures(ctx, c.Actions.ID, 3); err != nil || lines != "" {
		t.Errorf("of size 3: %q", lines)
	}
	if note, err := s.CosignedCheckpoint(ctx, c.Actions.ID, 4); err != nil || note != "checkpoint" {
		t.Errorf("that covers record 4: %q, %v", note, err)
	}
	if note, err := s.CosignedCheckpoint(ctx, c.Actions.ID, 5); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("that covers record 5: %q, %v", note, err)
	}
	if err := s.Checkpoints.KeepCosignature(ctx, "no log", 5, "checkpoint", a); err == nil {
		t.Error("of a log that there is not")
	}
}

// After StopWrites no method writes, and reads continue.
func TestStopWrites(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	attest(t, s, c, 3)
	reason := fmt.Errorf("%w: a witness says so", store.ErrRolledBack)
	if !s.StopWrites(reason) || s.StopWrites(errors.New("another")) {
		t.Error("the first reason does not count alone")
	}
	if _, err := s.Append(ctx, draft(c)); !errors.Is(err, store.ErrRolledBack) {
		t.Errorf("append: %v", err)
	}
	if _, _, err := s.Companies.Create(ctx, "zoo", nil, now); !errors.Is(err, store.ErrRolledBack) {
		t.Errorf("create a company: %v", err)
	}
	if err := s.Ready(ctx); !errors.Is(err, store.ErrRolledBack) {
		t.Errorf("ready: %v", err)
	}
	if answer, err := cosigner(t, s).AddCheckpoint(ctx, newWatchedLog(t, "leaf", 1).request(t, 0, 1), now); !errors.Is(err, store.ErrRolledBack) || answer.Status != 0 {
		t.Errorf("cosign: %+v, %v", answer, err)
	}
	if n := length(t, s, c); n != 3 {
		t.Errorf("%d records", n)
	}
	must.OK(t, s.Close())
	attest(t, open(t, path), c, 1)
}
