package stream

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
)

// A place is refused when an address or a company has its share, and when the places left are
// reserved for clients with a credential. A client that has a place does not lose it, and a
// released place is available again.
func TestPlacesAreShared(t *testing.T) {
	t.Parallel()
	_, url := startHub(t, func(bool) {}) // 8 places, 3 for each, 2 reserved
	refused := func(query string) {
		t.Helper()
		_, res, err := websocket.DefaultDialer.DialContext(t.Context(), url+query, nil)
		if err == nil || res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %v, want 503 with Retry-After", query, err)
		}
	}
	for range 3 {
		join(t, url+"?address=192.0.2.1")
	}
	refused("?address=192.0.2.1")
	refused("?address=192.0.2.1&chain=1") // a credential gives no second share
	for range 2 {
		join(t, url+"?address=192.0.2.2&chain=1")
	}
	leaving := join(t, url+"?address=192.0.2.3&chain=1")
	refused("?address=192.0.2.4&chain=1") // nor does a company get more from elsewhere
	refused("?address=192.0.2.5")         // what is left is reserved
	refused("")
	join(t, url+"?address=192.0.2.5&chain=2")
	join(t, url+"?address=192.0.2.6&chain=3")
	refused("?address=192.0.2.7&chain=4") // there is an end for everybody

	_ = leaving.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Minute))
	_, err := read(leaving)
	wantClose(t, err, websocket.CloseNormalClosure)
	for {
		conn, _, err := websocket.DefaultDialer.DialContext(t.Context(), url+"?address=192.0.2.7&chain=4", nil)
		if err == nil { // the server has noticed
			_ = conn.Close()
			return
		}
	}
}

// A deleted credential ends its own streams, after what was written before, and no others.
func TestEndOfACredential(t *testing.T) {
	t.Parallel()
	h, url := startHub(t, func(bool) {})
	gone := []*websocket.Conn{join(t, url+"?chain=1&credential=a"), join(t, url+"?chain=1&credential=a")}
	stay := []*websocket.Conn{join(t, url+"?chain=1&credential=b"), join(t, url)}
	h.Broadcast(event(1, 0, 0))
	for _, conn := range append(gone, stay...) {
		if i := next(t, conn); i != 0 {
			t.Errorf("record %d came first", i)
		}
	}
	h.End("a")
	h.End("a")
	h.End("unknown")
	h.End("") // is not the credential of those who have none
	h.Broadcast(event(1, 1, 0))
	for _, conn := range gone {
		_, err := read(conn)
		wantClose(t, err, websocket.ClosePolicyViolation)
	}
	for _, conn := range stay {
		if i := next(t, conn); i != 1 {
			t.Errorf("record %d after another credential's end", i)
		}
	}
}

// A credential that is deleted between its lookup and the moment when End finds its client ends
// that client all the same, before any record.
func TestCredentialEndsWhileItsClientComes(t *testing.T) {
	t.Parallel()
	var deleted atomic.Bool
	var h *Hub
	h, url := startHubOf(t, func(bool) {}, func(*http.Request) Subscriber {
		// The lookup has found the credential valid. Now it is deleted, and End finds no client.
		deleted.Store(true)
		h.End("a")
		return Subscriber{Chain: 1, Credential: "a", Check: func() error {
			h.Broadcast(event(1, 0, 0)) // a record at the worst moment
			if deleted.Load() {
				return ErrCredentialEnded
			}
			return nil
		}}
	})
	conn := join(t, url)
	_, err := read(conn)
	wantClose(t, err, websocket.ClosePolicyViolation)
}

// A credential that cannot be checked, because the database is unreachable, ends nothing for good:
// its client is asked to retry.
func TestCredentialThatCannotBeChecked(t *testing.T) {
	t.Parallel()
	_, url := startHubOf(t, func(bool) {}, func(*http.Request) Subscriber {
		return Subscriber{Chain: 1, Credential: "a", Check: func() error { return io.ErrUnexpectedEOF }}
	})
	_, err := read(join(t, url))
	wantClose(t, err, websocket.CloseTryAgainLater)
}

// A client never gets a second record for an index of its chain: the connection ends before. So do
// the connections of all clients that get a chain which is known to have gone back; others
// continue.
func TestStreamEndsAfterRollback(t *testing.T) {
	t.Parallel()
	h, url := startHub(t, func(bool) {})
	bound, all, other := join(t, url+"?chain=1&credential=a"), join(t, url), join(t, url+"?chain=2&credential=b")
	for i := range int64(3) {
		h.Broadcast(event(1, i, 0))
		next(t, bound)
		next(t, all)
	}
	h.Broadcast(event(1, 1, 0))
	_, err := read(bound)
	wantClose(t, err, websocket.CloseTryAgainLater)
	next(t, all)

	bound = join(t, url+"?chain=1&credential=a")
	h.WentBack(1)
	_, err = read(bound)
	wantClose(t, err, websocket.CloseTryAgainLater)
	_, err = read(all)
	wantClose(t, err, websocket.CloseTryAgainLater)
	h.Broadcast(event(2, 7, 0))
	if i := next(t, other); i != 7 {
		t.Errorf("record %d", i)
	}
}

func TestStreamEndsAtExpiry(t *testing.T) {
	streamed(t, func(t *testing.T, h *Hub, join func(query ...string) *websocket.Conn) {
		conn, forever := join("chain=1", "credential=a", "expires=1h"), join("chain=1", "credential=b")
		joined := time.Now()
		go func() {
			for { // answers pings
				if _, _, err := forever.NextReader(); err != nil {
					return
				}
			}
		}()
		_, _, err := conn.ReadMessage()
		wantClose(t, err, websocket.ClosePolicyViolation)
		if after := time.Since(joined); after != time.Hour {
			t.Errorf("ended after %v, want an hour", after)
		}
		_ = conn.Close()
		synctest.Wait()
		if n := h.clientCount(); n != 1 {
			t.Errorf("%d clients are left, want the one that does not expire", n)
		}
	})
}

// Records that wait to be written do not keep a client beyond the expiry of its credential.
func TestStreamEndsAtExpiryDespiteQueue(t *testing.T) {
	streamed(t, func(t *testing.T, h *Hub, join func(query ...string) *websocket.Conn) {
		conn := join("chain=1", "credential=a", "expires=1s")
		h.Broadcast(event(1, 0, 0)) // is being written, because no client reads yet
		synctest.Wait()
		time.Sleep(time.Second)
		for i := range int64(10) {
			h.Broadcast(event(1, 1+i, 0))
		}
		if i := next(t, conn); i != 0 {
			t.Errorf("record %d came first", i)
		}
		_, err := read(conn)
		wantClose(t, err, websocket.ClosePolicyViolation)
	})
}
