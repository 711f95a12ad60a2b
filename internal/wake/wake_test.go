package wake_test

import (
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
