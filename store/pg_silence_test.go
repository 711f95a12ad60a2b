package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/postgres/pgtest"
)

// silent is as many connections as a write may ever use, all silent.
var silent = make([]int64, 100)

// Whatever the network does, a write ends in time and as what it is. All cases are tried at once,
// for they only wait.
func TestSilentNetwork(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	var cases sync.WaitGroup
	defer cases.Wait()
	for i, w := range writes {
		if i%2 == 1 && !testenv.Night() { // some, for each case needs connections of its own
			continue
		}
		for part := range int64(4) {
			cases.Go(func() { silentOnce(t, w, part) })
		}
		cases.Go(func() { silentForGood(t, w, toServer, 0) })
		cases.Go(func() { silentForGood(t, w, fromServer, 1) })
		cases.Go(func() { withoutServer(t, w) })
	}
}

// A write whose connection falls silent at any step is given up there after some seconds, found out
// about on another, and carried out exactly once.
func silentOnce(t *testing.T, w write, part int64) {
	f := newFar(t)
	_, length := f.length(t, w, f.all, 0)
	f.try(t, w, fmt.Sprintf("%s, silent after %d/3", w.name, part), func() { f.silence(fromServer, min(length-1, length*part/3)) })
	must(t, f.near.VerifyAll(ctx, "", 2, nil, nil))
}

// A write whose COMMIT, or the answer to that, is lost and after it the way to the server, ends as
// unknown: it may have been written or not, and an append is here the one and the other. Of a
// change of rows it may be another answer that is lost, after which it is certain that nothing was
// written. When the way is back, writing goes on.
func silentForGood(t *testing.T, w write, direction string, written int) {
	// bytes before the end, in the middle of the COMMIT and of its answer; how many come before
	// these varies a little
	const request, answer = 24, 14
	f := newFar(t)
	up, down := f.length(t, w, f.all, 0)
	last := map[string]int64{toServer: up - request, fromServer: down - answer}[direction]
	n, err := f.fail(t, w, func() { f.silence(direction, append([]int64{last}, silent...)...) })
	isUnknown, isNot := errors.Is(err, store.ErrUnknown), errors.Is(err, store.ErrUnavailable)
	switch {
	case err == nil && n == 1: // the whole answer was shorter than the last one was up to there
	case w.name == "append" && (n != written || !isUnknown) || n > 1 || n == 1 && !isUnknown || !isUnknown && !isNot:
		t.Errorf("%s, silent %s: written %d times, and the answer is %v", w.name, direction, n, err)
	}
	f.try(t, w, "after that", func() {})
	must(t, f.near.VerifyAll(ctx, "", 2, nil, nil))
}

// A write without a way to the server ends as one that was not written, and was not; when the way
// is back, writing goes on. Of one that was sent while the way was lost nobody can say that.
func withoutServer(t *testing.T, w write) {
	f := newFar(t)
	n, err := f.fail(t, w, f.proxy.Stop)
	if n != 0 || !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown) {
		t.Errorf("%s: written %d times, and the answer is %v", w.name, n, err)
	}
	f.writes++
	before := w.done(t, f.near, f.company, f.writes)
	if err := w.do(f.far, f.company, f.writes); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("%s: %v", w.name, err)
	}
	must(t, f.proxy.Start())
	if n := w.done(t, f.near, f.company, f.writes); n != before {
		t.Errorf("%s: written", w.name)
	}
	f.try(t, w, "after that", func() {})
}

// A slow network delays, and nothing else.
func TestSlowNetwork(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	f := newFar(t)
	for _, w := range writes {
		f.try(t, w, w.name, func() {
			f.add(toServer, "latency", map[string]int{"latency": 200, "jitter": 100})
			f.add(fromServer, "slicer", map[string]int{"average_size": 16, "size_variation": 8, "delay": 1000})
		})
	}
}

// Two servers are given the same payload in the same millisecond, while the connection of one is
// cut: the two records are both there, each once, and what was answered is what is there.
func TestIdenticalPayloadsAreTwoRecords(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced, testenv.Plain)
	t.Parallel()
	database := pgtest.Database(t)
	n, url := through(t, database)
	still := store.RunOptions{Now: func() time.Time { return now }}
	servers := []*store.Store{openWith(t, database, still), openWith(t, url, still)}
	c, _ := company(t, servers[0], "acme")
	d := draft(c)
	appendOnce := func(s *store.Store) int64 {
		r, err := s.Append(ctx, d)
		if err != nil {
			t.Error(err)
		}
		return r.Index
	}
	up := n.cut(toServer)
	appendOnce(servers[1])
	length := up.passed[0].Load()
	n.heal()
	answered := map[int64]bool{0: true}
	for _, direction := range []string{toServer, fromServer} {
		for _, after := range points(length) {
			n.cut(direction, after)
			var both sync.WaitGroup
			var indices [2]int64
			for i, s := range servers {
				both.Go(func() { indices[i] = appendOnce(s) })
			}
			both.Wait()
			n.heal()
			appendOnce(servers[1])
			for _, i := range indices {
				if answered[i] {
					t.Fatalf("record %d was answered twice", i)
				}
				answered[i] = true
			}
		}
	}
	records := read(t, servers[0], c.Chain, 0, 1<<40)
	if want := len(answered) + 2*len(points(length)); len(records) != want {
		t.Errorf("%d records, of %d answered", len(records), want)
	}
	must(t, servers[0].VerifyAll(ctx, "", 2, nil, nil))
}
