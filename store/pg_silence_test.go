package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/postgres"
	"attestd/store/storetest"
)

// silent silences as many connections as a write may use.
var silent = make([]int64, 100)

// Whatever the network does, a write ends in time and its answer is true. All cases run at once,
// because they only wait.
func TestSilentNetwork(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	var cases sync.WaitGroup
	defer cases.Wait()
	for i, w := range writes {
		// each case needs its own connections, so the short form runs a third of them
		if i%3 > 0 && !testenv.Night() {
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

// If a write's connection falls silent at any step, the server gives the connection up after some
// seconds, looks the outcome up on another connection, and the write is carried out exactly once.
func silentOnce(t *testing.T, w write, part int64) {
	f := newFar(t)
	_, length := f.length(t, w, f.all, 0)
	f.try(t, w, fmt.Sprintf("%s, silent after %d/3", w.name, part), func() { f.silence(fromServer, min(length-1, length*part/3)) })
	must.OK(t, f.near.VerifyAll(ctx, "", 2, nil, nil))
}

// If COMMIT or its answer is lost, and with it every way to the server, the outcome is unknown: the
// write may or may not have been carried out, and the appends here show both cases. If an earlier
// answer of a row change is lost, it is certain that nothing was written. Writing resumes when the
// network is back.
func silentForGood(t *testing.T, w write, direction string, written int) {
	// These are numbers of bytes before the end, in the middle of the COMMIT and of its answer; the
	// number of bytes before them varies a little.
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
	must.OK(t, f.near.VerifyAll(ctx, "", 2, nil, nil))
}

// Without a way to the server nothing is written, and the answer says so. Writing resumes when the
// network is back. For a write that was sent while the connection was being lost the outcome is
// unknown.
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
	must.OK(t, f.proxy.Start())
	if n := w.done(t, f.near, f.company, f.writes); n != before {
		t.Errorf("%s: written", w.name)
	}
	f.try(t, w, "after that", func() {})
}

// Wherever a server falls silent while a connection is being made, the attempt ends by itself, also
// for a caller that has no deadline.
func TestSilenceWhileConnecting(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.NotRaced, testenv.Plain)
	t.Parallel()
	n, url := through(t, storetest.Shared(t))
	connect := func() error {
		db := got(postgres.Open(url+"&connect_timeout=1", nil))(t)
		defer db.Close()
		c, err := db.Conn(context.Background())
		if err == nil {
			c.Close()
		}
		return err
	}
	whole := n.cut(fromServer)
	must.OK(t, connect())
	length := whole.passed[0].Load()
	for _, after := range points(length - 1) {
		n.heal()
		n.silence(fromServer, after)
		if err := connect(); err == nil {
			t.Errorf("connected, although the server fell silent after %d of %d bytes", after, length)
		}
	}
	n.heal()
	must.OK(t, connect())
}

// A slow network only delays answers.
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

// Two servers append the same payload in the same millisecond while the connection of one is cut:
// both records exist exactly once, and the answers agree with them.
func TestIdenticalPayloadsAreTwoRecords(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced, testenv.Plain)
	t.Parallel()
	database := storetest.Shared(t)
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
	must.OK(t, servers[0].VerifyAll(ctx, "", 2, nil, nil))
}
