package stream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"attestd/chain"
	"attestd/server/limit"
)

// committed is a chain on disk, of which only the number of records matters.
type committed struct {
	mu     sync.Mutex
	length int64
	size   int // of payloads
	reads  int
	fails  error
}

func (d *committed) commit() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.length++
	return d.length - 1
}

// backlog gives the records from an index on, a few at a time.
func (d *committed) backlog() Backlog {
	return func(_ context.Context, from int64) (events []chain.Event, err error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.reads++
		for ; from < d.length && len(events) < 32; from++ {
			events = append(events, event(1, from, d.size))
		}
		return events, d.fails
	}
}

func startHubOver(t *testing.T, d *committed) (h *Hub, url string) {
	t.Helper()
	return startHubOf(t, func(bool) {}, func(r *http.Request) Subscriber {
		s := subscriber(r)
		if _, err := fmt.Sscan(r.FormValue("from"), &s.From); err == nil {
			s.Backlog, s.Holder = d.backlog(), limit.Holder{Known: true}
		}
		return s
	})
}

// Records are committed fast and broadcast some time later, while clients resume at an earlier
// index. Each gets every record from there on once, and in order, even if it falls behind again.
func TestResumeWithoutAGap(t *testing.T) {
	t.Parallel()
	d := &committed{length: 100}
	h, url := startHubOver(t, d)
	const last = 3000
	broadcast := make(chan int64, 5) // committed and not broadcast yet: the monitor may be behind
	var writers sync.WaitGroup
	writers.Go(func() {
		defer close(broadcast)
		for d.commit() < last {
			broadcast <- d.length - 1 // this goroutine alone changes it
			if rand.IntN(40) == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		broadcast <- last
	})
	writers.Go(func() {
		for i := range broadcast {
			h.Broadcast(event(1, i, 0))
		}
	})
	for _, from := range []int64{0, 1, 99, 100, 100, 50, 77} {
		writers.Go(func() {
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
			conn, _, err := websocket.DefaultDialer.DialContext(t.Context(), fmt.Sprint(url, "?chain=1&from=", from), nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			for want := from; want < last; want++ {
				if i, err := read(conn); err != nil || i != want {
					t.Errorf("from %d: record %d, want %d: %v", from, i, want, err)
					return
				}
			}
		})
	}
	writers.Wait()
}

// One that reads slowly is not sent away while it catches up, and little is held for it; then it is
// a client like others.
func TestSlowClientCatchesUp(t *testing.T) {
	t.Parallel()
	d := &committed{length: 800, size: 16 << 10} // 12 MiB, far more than a client may be behind
	h, url := startHubOver(t, d)
	slow := join(t, url+"?chain=1&from=0")
	for range 400 {
		h.Broadcast(event(1, d.commit(), d.size))
	}
	if h.clientCount() != 1 {
		t.Fatal("it was sent away")
	}
	d.mu.Lock()
	reads := d.reads
	d.mu.Unlock()
	// its queue, and what the system has buffered for it
	if read := reads * 32 * d.size; read > 10<<20 {
		t.Errorf("%d bytes were read for a client that reads nothing", read)
	}
	for want := range int64(1200) {
		if i := next(t, slow); i != want {
			t.Fatalf("record %d, want %d", i, want)
		}
	}
	for i := range int64(10) {
		for h.isBehind() {
			time.Sleep(time.Millisecond)
		}
		h.Broadcast(event(1, d.commit(), 0))
		if got := next(t, slow); got != 1200+i {
			t.Fatalf("record %d, want %d", got, 1200+i)
		}
	}
}

// isBehind says whether a client reads from disk.
func (h *Hub) isBehind() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.clients {
		if c.behind != nil && c.behind.state != through {
			return true
		}
	}
	return false
}

// Where records cannot be read, the client is asked to retry. A client that leaves while it catches
// up leaks nothing.
func TestResumeThatFails(t *testing.T) {
	t.Parallel()
	d := &committed{length: 10, fails: errors.New("disk")}
	h, url := startHubOver(t, d)
	_, err := read(join(t, url+"?chain=1&from=3"))
	wantClose(t, err, websocket.CloseTryAgainLater)
	d.mu.Lock()
	d.fails, d.length, d.size = nil, 10_000, 64<<10
	d.mu.Unlock()
	gone := join(t, url+"?chain=1&from=0")
	next(t, gone)
	_ = gone.Close()
	h.Close() // waits for all
}

// If a chain has lost a record that was still to be delivered, those after it are delivered anyway.
func TestResumeBehindALostRecord(t *testing.T) {
	t.Parallel()
	d := &committed{length: 5}
	h, url := startHubOver(t, d)
	conn := join(t, url+"?chain=1&from=5")
	for h.clientCount() == 0 || h.isBehind() {
		time.Sleep(time.Millisecond)
	}
	h.Broadcast(event(1, 4, 0)) // late, and before what it asked for
	h.Broadcast(event(1, 7, 0))
	if i := next(t, conn); i != 7 {
		t.Errorf("record %d", i)
	}
}
