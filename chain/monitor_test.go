package chain_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"attestd/chain"
)

// watching has a log and a monitor on one disk, and the delivered events.
type watching struct {
	*chain.Log
	*chain.Monitor
	disk *disk

	mu        sync.Mutex
	delivered []chain.Event
	pause     chan struct{} // when set, emit waits for it
}

// watch starts both with a listener, in a synctest bubble.
func watch(t *testing.T, d *disk) *watching { return watchAs(t, d, false) }

// watchAs is watch for chains that other servers may write too. The monitor learns of those writes
// from Grown; they are not external writes.
func watchAs(t *testing.T, d *disk, shared bool) *watching {
	w := &watching{disk: d}
	w.Monitor = chain.NewMonitor(d, chain.NewVerifier(d, 2), shared)
	w.Log = chain.NewLog(d)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Monitor.Run(ctx, w.emit) }()
	stop := runWith(t, w.Log, func(batch []chain.Extension, external bool) { w.Publish(batch, external && !shared) })
	w.Listen(true)
	t.Cleanup(func() {
		stop()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Monitor.Run: %v", err)
		}
	})
	return w
}

func (w *watching) emit(e chain.Event) {
	w.mu.Lock()
	w.delivered = append(w.delivered, e)
	pause := w.pause
	w.mu.Unlock()
	if pause != nil {
		<-pause
	}
}

// events waits until all goroutines block and returns the events since the last call.
func (w *watching) events() []chain.Event {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	delivered := w.delivered
	w.delivered = nil
	return delivered
}

// want checks that the events are those of the records [from, to) of chain c, each with the root
// after it, or all failed at one index.
func (w *watching) want(t *testing.T, events []chain.Event, c int64, from, to int, failedAt int64) {
	t.Helper()
	if len(events) != to-from {
		t.Fatalf("%d events of chain %d, want those of [%d, %d)", len(events), c, from, to)
	}
	var tree reference
	for i := range from {
		tree.add(w.disk.row(c, int64(i)).Hash)
	}
	for i, e := range events {
		n := int64(from + i + 1)
		tree.add(w.disk.row(c, n-1).Hash)
		want := chain.Verdict{Length: n, FailedAt: failedAt, Reason: e.Verdict.Reason}
		if failedAt < 0 {
			want = chain.Verdict{Valid: true, Length: n, Root: tree.root()}
		}
		if e.Chain != c || e.Record.Index != n-1 || e.Verdict != want {
			t.Fatalf("event %d is of record %d of chain %d: %+v, want %+v", i, e.Record.Index, e.Chain, e.Verdict, want)
		}
		if row := w.disk.row(c, n-1); e.Record.Hash != row.Hash || string(e.Record.Payload) != string(row.Payload) || string(e.Record.Delegation) != string(row.Delegation) {
			t.Fatalf("event of record %d does not carry it", n-1)
		}
	}
}

const valid = -1

func (d *disk) row(c, i int64) chain.Record {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.chains[c].rows[i]
}

func (d *disk) count(step string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.steps[step]
}

func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// A chain is read once. From then on the running tree verifies each batch.
func TestMonitorFollows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDisk(1)
		w := watch(t, d)
		appendAll(t, w.Log, 1, 0, 1)
		w.want(t, w.events(), 1, 0, 1, valid)
		reads := d.count("tip") + d.count("records")
		for n := 1; n < 300; n += 13 {
			appendAll(t, w.Log, 1, n, n+13)
			w.want(t, w.events(), 1, n, n+13, valid)
		}
		if again := d.count("tip") + d.count("records"); again != reads {
			t.Errorf("read from disk %d times more", again-reads)
		}
	})
}

// After a start, the whole chain is verified before the first event.
func TestMonitorAfterRestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDisk(1, 2)
		grow(t, d, 1, 0, 300)
		grow(t, d, 2, 0, 300)
		d.tamper(2, func(s *stored) { s.rows[7].Signature[0] ^= 1 })
		w := watch(t, d)
		appendAll(t, w.Log, 1, 300, 305)
		w.want(t, w.events(), 1, 300, 305, valid)
		appendAll(t, w.Log, 2, 300, 305)
		w.want(t, w.events(), 2, 300, 305, 7)
	})
}

// An external write invalidates all states. An invalid chain is not read again until the next
// external write.
func TestMonitorExternalWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDisk(1)
		w := watch(t, d)
		appendAll(t, w.Log, 1, 0, 20)
		w.want(t, w.events(), 1, 0, 20, valid)

		good := d.row(1, 5)
		d.tamper(1, func(s *stored) { edit(&s.rows[5].Payload, `"z"`, `"y"`) })
		appendAll(t, w.Log, 1, 20, 21)
		w.want(t, w.events(), 1, 20, 21, 5)
		reads := d.count("tip")
		appendAll(t, w.Log, 1, 21, 40)
		w.want(t, w.events(), 1, 21, 40, 5)
		if d.count("tip") != reads {
			t.Error("a chain known to be bad was verified again")
		}

		d.tamper(1, func(s *stored) { s.rows[5] = good })
		appendAll(t, w.Log, 1, 40, 45)
		w.want(t, w.events(), 1, 40, 45, valid)
	})
}

// The verification of a long chain delays only its own events, which stay in order.
func TestMonitorSlowVerification(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDisk(1, 2)
		grow(t, d, 1, 0, 10)
		w := watch(t, d)
		appendAll(t, w.Log, 2, 0, 1)
		w.want(t, w.events(), 2, 0, 1, valid)

		slow := make(chan struct{})
		d.setFault(func(step string, c int64) error {
			if step == "records" && c == 1 {
				<-slow
			}
			return nil
		})
		appendAll(t, w.Log, 1, 10, 600)
		appendAll(t, w.Log, 2, 1, 50)
		w.want(t, w.events(), 2, 1, 50, valid)
		close(slow)
		w.want(t, w.events(), 1, 10, 600, valid)
		appendAll(t, w.Log, 1, 600, 603)
		w.want(t, w.events(), 1, 600, 603, valid)
	})
}

// An external write during a verification invalidates its result.
func TestMonitorExternalWriteDuringVerification(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDisk(1)
		grow(t, d, 1, 0, 300)
		w := watch(t, d)
		slow := make(chan struct{})
		d.setFault(func(step string, c int64) error {
			if step == "hashes" { // record 255 has been checked
				<-slow
			}
			return nil
		})
		appendAll(t, w.Log, 1, 300, 301)
		synctest.Wait()
		d.tamper(1, func(s *stored) { s.rows[100].Hash[0] ^= 1 })
		appendAll(t, w.Log, 1, 301, 302)
		close(slow)
		w.want(t, w.events(), 1, 300, 302, 100)
	})
}

// After an external write, a chain that is already queued is verified before delivery.
func TestMonitorExternalWriteBeforeTurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDisk(1, 2)
		w := watch(t, d)
		appendAll(t, w.Log, 1, 0, 10)
		appendAll(t, w.Log, 2, 0, 10)
		w.events()
		w.mu.Lock()
		w.pause = make(chan struct{})
		w.mu.Unlock()
		appendAll(t, w.Log, 2, 10, 11)
		synctest.Wait() // the deliverer is blocked with chain 2
		appendAll(t, w.Log, 1, 10, 11)
		d.tamper(1, func(s *stored) { s.rows[3].Hash[0] ^= 1 })
		appendAll(t, w.Log, 2, 11, 12)
		close(w.pause)
		w.mu.Lock()
		w.pause = nil
		w.mu.Unlock()
		byChain := map[int64][]chain.Event{}
		for _, e := range w.events() {
			byChain[e.Chain] = append(byChain[e.Chain], e)
		}
		w.want(t, byChain[1], 1, 10, 11, 3)
		w.want(t, byChain[2], 2, 10, 12, valid)
	})
}

// Records committed without listeners are never delivered. A known state stays current without
// reads.
func TestMonitorListen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDisk(1, 2)
		w := watch(t, d)
		appendAll(t, w.Log, 1, 0, 10)
		w.want(t, w.events(), 1, 0, 10, valid)
		reads := d.count("tip")

		w.Listen(false)
		appendAll(t, w.Log, 1, 10, 100)
		appendAll(t, w.Log, 2, 0, 100)
		w.want(t, w.events(), 1, 0, 0, valid)
		w.Listen(true)
		appendAll(t, w.Log, 1, 100, 110)
		w.want(t, w.events(), 1, 100, 110, valid)
		if d.count("tip") != reads {
			t.Error("a state that could have been cached was computed again")
		}
		appendAll(t, w.Log, 2, 100, 110) // never known
		w.want(t, w.events(), 2, 100, 110, valid)

		w.Listen(false)
		d.tamper(1, func(s *stored) { s.rows[50].Hash[0] ^= 1 })
		appendAll(t, w.Log, 1, 110, 111)
		w.Listen(true)
		appendAll(t, w.Log, 1, 111, 112)
		w.want(t, w.events(), 1, 111, 112, 50)

		w.Listen(false) // and a state that is bad stays bad
		appendAll(t, w.Log, 1, 112, 113)
		w.Listen(true)
		appendAll(t, w.Log, 1, 113, 114)
		w.want(t, w.events(), 1, 113, 114, 50)
	})
}

// When listening ends during a verification, the pending records are dropped.
func TestMonitorListenEndsDuringVerification(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDisk(1)
		w := watch(t, d)
		slow := make(chan struct{})
		d.setFault(func(step string, c int64) error {
			if step == "tip" {
				<-slow
			}
			return nil
		})
		appendAll(t, w.Log, 1, 0, 5)
		synctest.Wait()
		w.Listen(false)
		appendAll(t, w.Log, 1, 5, 10)
		w.Listen(true)
		appendAll(t, w.Log, 1, 10, 15)
		close(slow)
		w.want(t, w.events(), 1, 10, 15, valid)
	})
}
