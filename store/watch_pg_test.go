package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/chain"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/postgres/pgtest"
	"attestd/store/storetest"
)

// listener is a server with a subscriber and the events that were sent to the subscriber.
type listener struct {
	*store.Store
	events chan chain.Event
}

// listen runs a server on the database of a URL with a monitor that has a subscriber.
func listen(t *testing.T, url string) *listener {
	t.Helper()
	s, err := store.Open(ctx, url, "", store.Options{Master: master()})
	must.OK(t, err)
	l := &listener{s, make(chan chain.Event, 1<<16)}
	m := chain.NewMonitor(s, chain.NewVerifier(s, 2), s.MultiWriter())
	m.Listen(true)
	running, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { _ = m.Run(running, func(e chain.Event) { l.events <- e }) })
	all.Go(func() { _ = s.Run(running, store.RunOptions{Publish: m.Publish, Others: m.Grown}) })
	t.Cleanup(func() {
		stop()
		all.Wait()
		s.Close()
	})
	must.OK(t, s.Ready(ctx)) // earlier records are sent to no listener
	return l
}

// want waits for the events of the first n records of a chain: each once, in order, and with the
// chain valid.
func (l *listener) want(t *testing.T, c *store.Company, n int64) {
	t.Helper()
	for i := range n {
		select {
		case e := <-l.events:
			if e.Chain != c.Chain || e.Record.Index != i || !e.Verdict.Valid {
				t.Fatalf("event %d is record %d of chain %d: %+v", i, e.Record.Index, e.Chain, e.Verdict)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%d events of %d", i, n)
		}
	}
	select {
	case e := <-l.events:
		t.Fatalf("one more event, of record %d", e.Record.Index)
	case <-time.After(300 * time.Millisecond):
	}
}

// Two servers write one chain at once: a subscriber of either receives every record once and in
// order, and the verdict that the chain is valid.
func TestServersHearOfEachOther(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	const callers, each = 8, 50
	url := storetest.Shared(t)
	servers := []*listener{listen(t, url), listen(t, url)}
	c, _ := company(t, servers[0].Store, "acme")
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for range each {
				if _, err := servers[i%2].Append(ctx, draft(c)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, s := range servers {
		s.want(t, c, callers*each)
	}
}

// Growth of a control log by another server wakes its followers and names the company; its records
// go to no listener. Growth of an action log goes to listeners, and names no company.
func TestOtherServersChangesNameTheirCompany(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	url := storetest.Shared(t)
	one := listen(t, url)
	s, err := store.Open(ctx, url, "", store.Options{Master: master()})
	must.OK(t, err)
	heard := make(chan string, 1<<10)
	running, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() {
		_ = s.Run(running, store.RunOptions{
			Grown:   func(number int64) { heard <- fmt.Sprint("grown ", number) },
			Others:  func(number, from, to int64) { heard <- fmt.Sprint("others ", number, from, to) },
			Changed: func(company int64) { heard <- fmt.Sprint("changed ", company) },
		})
	})
	t.Cleanup(func() {
		stop()
		all.Wait()
		s.Close()
	})
	must.OK(t, s.Ready(ctx))
	c, _ := company(t, one.Store, "acme")
	_, err = one.Append(ctx, draft(c))
	must.OK(t, err)
	// in any order between the logs
	wants := []string{fmt.Sprint("grown ", -c.Chain), fmt.Sprint("changed ", c.Chain), fmt.Sprint("grown ", c.Chain), fmt.Sprint("others ", c.Chain, 0, 1)}
	var got []string
	for slices.ContainsFunc(wants, func(want string) bool { return !slices.Contains(got, want) }) {
		select {
		case h := <-heard:
			got = append(got, h)
		case <-time.After(time.Minute):
			t.Fatalf("heard %q, want %q", got, wants)
		}
	}
	if i := slices.IndexFunc(got, func(h string) bool { return strings.HasPrefix(h, "others -") }); i >= 0 {
		t.Errorf("records of a control log went to listeners: %q", got[i])
	}
}

// The primary is killed under load and its standby promoted: a subscriber of the other server
// receives every acknowledged record, in order and without a gap.
func TestListenersOverAFailover(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	cluster := pgtest.NewCluster(t)
	a, b := listen(t, cluster.URL()), listen(t, cluster.URL())
	c, _ := company(t, a.Store, "acme")
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				// A record that was written is an event, and one that was not written is none,
				// whatever the answer was.
				_, _ = a.Append(ctx, saying(c, fmt.Sprintf(`{"caller":%d,"n":%d}`, i, n)))
			}
		})
	}
	reach := func(n int64) int64 {
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if h, _, err := b.Tip(ctx, c.Chain); err == nil && h.Length >= n {
				return h.Length
			}
			if time.Now().After(deadline) {
				t.Fatalf("the chain does not grow to %d", n)
			}
		}
	}
	reach(50)
	cluster.Kill()
	cluster.Promote()
	reach(reach(0) + 50)
	close(stop)
	all.Wait()
	b.want(t, c, reach(0))
}
