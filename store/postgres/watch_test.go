package postgres

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"attestd/chain"
	"attestd/internal/testenv"
)

// others is a database that several servers write, reduced to the lengths of chains.
type others struct {
	mu      sync.Mutex
	lengths map[int64]int64
	news    map[int64]int64
	fails   error
	opened  int
	purged  int
	largest int
}

func (o *others) append(number, length int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lengths[number] = length
	o.news[number] = length
}

func (o *others) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fails = err
}

func (o *others) Open(context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.opened++
	clear(o.news) // records that came while there was no connection show in the heads alone
	return o.fails
}

func (o *others) Next(context.Context) (map[int64]int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.news), o.fails // returns the same answer each time
}

func (o *others) Heads(_ context.Context, after int64, most int) (map[int64]int64, int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	found, last := map[int64]int64{}, after
	for _, number := range slices.Sorted(maps.Keys(o.lengths)) {
		if number > after && len(found) < most {
			found[number], last = o.lengths[number], number
		}
	}
	o.largest = max(o.largest, len(found))
	return found, last, o.fails
}

func (o *others) Lengths(_ context.Context, chains []int64) (map[int64]int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	found := map[int64]int64{}
	for _, number := range chains {
		found[number] = o.lengths[number]
	}
	return found, o.fails
}

func (o *others) Purge(context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.purged++
	return o.fails
}

func (o *others) Close() {}

// said is an announced growth, of an own commit or of others.
type said struct {
	chain, from, to int64
	own             bool
}

// watching is a watch and its announcements.
type watching struct {
	*others
	*Watch
	mu     sync.Mutex
	said   []said
	shrunk int
	before []map[int64]int64
}

// startWatch starts a watch inside a bubble.
func startWatch(t *testing.T, lengths map[int64]int64) *watching {
	o := &others{lengths: lengths, news: map[int64]int64{}}
	w := &watching{others: o, Watch: newWatch(o)}
	w.Extended = func(number, from, to int64) { w.note(said{number, from, to, false}) }
	w.Shrunk = func(chains []int64) { w.shrunk += len(chains) }
	w.Compare = func(_ context.Context, before map[int64]int64) error {
		w.before = append(w.before, before)
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx, func() { close(ready) })
	}()
	<-ready
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return w
}

// A watch that is stopped before it begins lets its caller go on.
func TestStoppedWatchIsReady(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	ready := 0
	newWatch(&others{}).Run(stopped, func() { ready++ })
	if ready != 1 {
		t.Errorf("ready was called %d times", ready)
	}
}

func (w *watching) note(s said) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, s)
}

// commit makes an own commit.
func (w *watching) commit(number, from, to int64) {
	w.append(number, to)
	w.published(number, from, to)
}

func (w *watching) published(number, from, to int64) {
	e := chain.Extension{Chain: number, From: chain.Head{Length: from}, Head: chain.Head{Length: to}}
	w.Publish([]chain.Extension{e}, func(left []chain.Extension) {
		for _, e := range left {
			w.note(said{e.Chain, e.From.Length, e.Head.Length, true})
		}
	})
}

// want waits for a while and compares the announcements since the last call.
func (w *watching) want(t *testing.T, wait time.Duration, want ...said) {
	t.Helper()
	time.Sleep(wait)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.said, func(a, b said) int { return cmp.Compare(a.chain, b.chain) })
	if !slices.Equal(w.said, want) {
		t.Errorf("%v was said, want %v", w.said, want)
	}
	w.said = nil
}

// Each growth is announced once and in order, whether its notice, which is repeated, or the own
// commit behind it comes first.
func TestWatchReportsEachGrowthOnce(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := startWatch(t, map[int64]int64{1: 10, 2: 20, -1: 5})
		w.want(t, time.Second)
		w.append(1, 12)
		w.append(-1, 6)
		w.append(3, 2) // a new chain
		w.want(t, 2*watchEvery, said{-1, 5, 6, false}, said{1, 10, 12, false}, said{3, 0, 2, false})

		w.append(1, 15)
		w.commit(1, 15, 17) // before the notice of the records under it
		w.want(t, 0, said{1, 12, 15, false}, said{1, 15, 17, true})
		w.want(t, time.Second)

		w.append(2, 21) // the notice of an own commit comes before the commit is published
		w.want(t, 2*watchEvery, said{2, 20, 21, false})
		w.published(2, 20, 21)
		w.commit(2, 21, 22)
		w.want(t, time.Minute, said{2, 21, 22, true})
		if w.purged < 5 {
			t.Errorf("purged %d times in a minute", w.purged)
		}
	})
}

// Growth that was missed while the database was unreachable is found in the heads, also that of
// many chains, and so is growth without a notice.
func TestWatchReconciles(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lengths := map[int64]int64{}
		for number := range int64(3500) {
			lengths[number+1] = 7
		}
		w := startWatch(t, lengths)
		w.fail(errors.New("away"))
		time.Sleep(3 * time.Second)
		w.append(3, 8)
		w.append(3400, 9)
		w.fail(nil)
		w.want(t, time.Second, said{3, 7, 8, false}, said{3400, 7, 9, false})
		if w.largest != reconcileRows {
			t.Errorf("%d heads at once", w.largest)
		}
		w.others.mu.Lock()
		w.lengths()[2900] = 8 // without a notice
		w.others.mu.Unlock()
		w.want(t, 5*reconcileEvery, said{2900, 7, 8, false})
	})
}

func (w *watching) lengths() map[int64]int64 { return w.others.lengths }

// A database in which chains have become shorter is noticed once, and records that are written
// there later are announced.
func TestWatchNoticesAnOlderCopy(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := startWatch(t, map[int64]int64{1: 10, 2: 20})
		w.fail(errors.New("away"))
		time.Sleep(time.Second)
		w.append(1, 4)
		w.fail(nil)
		w.want(t, 10*time.Second)
		if w.shrunk != 1 {
			t.Errorf("noticed %d times", w.shrunk)
		}
		if len(w.before) != 1 || !maps.Equal(w.before[0], map[int64]int64{1: 10}) {
			t.Errorf("compared with %v", w.before)
		}
		w.append(1, 6)
		w.want(t, 2*watchEvery, said{1, 4, 6, false})
	})
}
