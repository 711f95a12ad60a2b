package wake_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"attestd/internal/wake"
)

// A signal that is set twice wakes once, and one that is set while no one waits is not lost.
func TestSignalWakesOnce(t *testing.T) {
	t.Parallel()
	signal := wake.NewSignal()
	signal.Set()
	signal.Set()
	<-signal
	select {
	case <-signal:
		t.Error("it was set twice, and woke twice")
	default:
	}
	signal.Set()
	<-signal
	wake.Signal(nil).Set() // does not block
}

// A receiver that looks for all there is to do, after each signal, misses nothing of many senders.
func TestSignalLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const senders, each = 8, 100
		signal := wake.NewSignal()
		var mu sync.Mutex
		todo := 0
		for range senders {
			go func() {
				for range each {
					mu.Lock()
					todo++
					mu.Unlock()
					signal.Set()
				}
			}()
		}
		for done := 0; done < senders*each; {
			<-signal // synctest fails a test that would wait here for ever
			mu.Lock()
			done, todo = done+todo, 0
			mu.Unlock()
		}
	})
}

// Items that are added twice are drained once, in their order, and each addition wakes.
func TestPending(t *testing.T) {
	t.Parallel()
	pending := wake.NewPending[int64]()
	pending.Add(3, 1)
	pending.Add(3)
	<-pending.Signal
	if n := pending.Len(); n != 2 {
		t.Errorf("%d items are pending, want 2", n)
	}
	if items := pending.Drain(); !slices.Equal(items, []int64{1, 3}) {
		t.Errorf("drained %v", items)
	}
	pending.Add()
	<-pending.Signal // an addition of nothing wakes too
	if items := pending.Drain(); len(items) != 0 {
		t.Errorf("drained %v of nothing", items)
	}
}
