package chain

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxHeads = 4096 // cached heads, 1 KiB each at most
	maxTries = 4    // of a batch whose heads turn out to be stale
)

// writer is what the goroutine of Log.Run owns. Heads are installed only after the commit that makes them true.
type writer struct {
	storage Storage
	publish func([]Extension, bool)
	heads   map[int64]Head // as committed by this process, or read since
	foreign bool           // someone else has written the file since the last publish
}

// group is the part of a batch that goes to one chain, in order of arrival.
type group struct {
	chain   int64
	waiters []*waiter
	from    Head
}

// write makes a batch durable and answers all its waiters.
func (w *writer) write(ctx context.Context, batch []*waiter) {
	groups := groupByChain(batch)
	for try := 1; ; try++ {
		groups = w.readHeads(ctx, groups)
		if len(groups) == 0 {
			return
		}
		extensions := extend(groups, time.Now())
		foreign, err := w.storage.Extend(ctx, extensions)
		// This process is the only one that may write, so a head that moved is a foreign write too. It is remembered until
		// publish can tell: the try that succeeds will no longer see it.
		w.foreign = w.foreign || foreign || errors.Is(err, ErrStale)
		if err == nil {
			w.commit(groups, extensions)
			return
		}
		for i := range groups {
			delete(w.heads, groups[i].chain)
		}
		if refused := (*ChainError)(nil); errors.As(err, &refused) {
			if rest := without(groups, refused.Chain, err); len(rest) < len(groups) {
				groups = rest
				try-- // does not count: there is a group less
				continue
			}
		}
		if !errors.Is(err, ErrStale) || try == maxTries {
			for i := range groups {
				groups[i].fail(err)
			}
			return
		}
	}
}

// commit installs, publishes and answers what is durable.
func (w *writer) commit(groups []group, extensions []Extension) {
	if w.foreign {
		clear(w.heads)
	}
	for i := range extensions {
		keep(w.heads, maxHeads, extensions[i].Chain, extensions[i].Head)
	}
	w.publish(extensions, w.foreign)
	w.foreign = false
	for i := range groups {
		for j, waiter := range groups[i].waiters {
			waiter.record = extensions[i].Records[j]
			close(waiter.done)
		}
	}
}

// readHeads gives each group the head to build on. A group whose head cannot be read, or does not fit itself, is answered and dropped.
func (w *writer) readHeads(ctx context.Context, groups []group) []group {
	readable := groups[:0]
	for _, g := range groups {
		head, cached := w.heads[g.chain]
		if !cached {
			var err error
			if head, err = w.storage.Head(ctx, g.chain); err == nil {
				_, err = treeAt(head)
			}
			if err != nil {
				g.fail(fmt.Errorf("chain: head of chain %d: %w", g.chain, err))
				continue
			}
			keep(w.heads, maxHeads, g.chain, head)
		}
		g.from = head
		readable = append(readable, g)
	}
	return readable
}

// without answers the group of a chain with err and returns the others.
func without(groups []group, chain int64, err error) []group {
	var rest []group
	for _, g := range groups {
		if g.chain == chain {
			g.fail(err)
			continue
		}
		rest = append(rest, g)
	}
	return rest
}

// keep puts v into a map of at most limit chains; when it is full it forgets an arbitrary one.
func keep[V any](m map[int64]V, limit int, chain int64, v V) {
	if _, known := m[chain]; !known && len(m) >= limit {
		for other := range m {
			delete(m, other)
			break
		}
	}
	m[chain] = v
}

func (g *group) fail(err error) {
	for _, waiter := range g.waiters {
		waiter.fail(err)
	}
}

func groupByChain(batch []*waiter) []group {
	var groups []group
	places := make(map[int64]int)
	for _, waiter := range batch {
		place, known := places[waiter.draft.Chain]
		if !known {
			place = len(groups)
			places[waiter.draft.Chain] = place
			groups = append(groups, group{chain: waiter.draft.Chain})
		}
		groups[place].waiters = append(groups[place].waiters, waiter)
	}
	return groups
}

// extend builds what a batch adds, on copies of the heads. Indices and times are given first, so that hashes and signatures,
// nearly all of the work, can be made in parallel.
func extend(groups []group, now time.Time) []Extension {
	type job struct {
		record *Record
		draft  *Draft
	}
	var jobs []job
	extensions := make([]Extension, len(groups))
	timestamp := FormatTime(now)
	for i, g := range groups {
		records := make([]Record, len(g.waiters))
		for j, waiter := range g.waiters {
			d := &waiter.draft
			records[j] = Record{
				Index:      g.from.Length + int64(j),
				Timestamp:  max(timestamp, g.from.Timestamp), // the clock may have been set back
				Payload:    d.Payload,
				Delegation: d.Delegation,
			}
			jobs = append(jobs, job{&records[j], d})
		}
		extensions[i] = Extension{Chain: g.chain, From: g.from, Records: records}
	}
	parallel(len(jobs), func(i int) { jobs[i].record.seal(jobs[i].draft.Canonical, jobs[i].draft.Key) })
	for i := range extensions {
		extensions[i].grow()
	}
	return extensions
}

// grow derives nodes and head from the records.
func (e *Extension) grow() {
	t := tree{e.From.Length, e.From.Frontier}.clone()
	for i := range e.Records {
		e.Nodes = t.append(e.Records[i].Hash, e.Nodes)
	}
	e.Head = Head{t.length, t.root(), t.frontier, e.Records[len(e.Records)-1].Timestamp}
}

// parallel calls work for each of [0, n) and returns when all is done. A few pieces are not worth a second goroutine.
func parallel(n int, work func(i int)) {
	var next atomic.Int64
	run := func() {
		for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
			work(int(i))
		}
	}
	var helpers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n/2) - 1 {
		helpers.Go(run)
	}
	run()
	helpers.Wait()
}
