package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	api "attestd/sdk/attestd"

	"attestd/internal/must"
	"attestd/store/storetest"
)

// The records that a client follows come in order and once each, although the server and the
// connections are interrupted.
func TestFollowIsComplete(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	s := serve(t, db, "--rate-limits", "off")
	key := s.register(t, "acme").key
	way := newSwitchboard(t)
	way.to(s)
	config := api.Config{URL: "http://" + way.listener.Addr().String(), Credential: api.Key(key), Retry: &api.Retry{Times: 200, Min: 5 * time.Millisecond, Max: 20 * time.Millisecond}}
	c, err := api.New(config)
	must.OK(t, err)
	defer c.Close()

	const records, kills = 400, 4
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	followed := make(chan api.Record, records)
	end := make(chan error, 1)
	go func() {
		for r, err := range c.Follow(ctx, 0) {
			if err != nil {
				end <- err
				return
			}
			followed <- r
			if r.Index == records-1 {
				end <- nil
				return
			}
		}
	}()
	for n := range records {
		r, err := c.Attest(ctx, api.Attestation{AgentID: "bot", ActionType: "count", Payload: n})
		must.OK(t, err)
		if r.Index != int64(n) {
			t.Fatalf("attestation %d has become record %d", n, r.Index)
		}
		if n%(records/kills) == records/kills/2 {
			must.OK(t, s.kill())
			s = serve(t, db, "--rate-limits", "off")
			way.to(s)
		}
	}
	must.OK(t, <-end)
	close(followed)
	next := int64(0)
	for r := range followed {
		if r.Index != next || string(r.Payload.Payload) != fmt.Sprint(next) {
			t.Fatalf("record %d comes where %d is due", r.Index, next)
		}
		next++
	}
	if next != records {
		t.Errorf("%d records came, want %d", next, records)
	}
}

// An error that does not pass with time ends the following.
func TestFollowEnds(t *testing.T) {
	t.Parallel()
	s := serve(t, storetest.New(t))
	own := s.register(t, "acme")
	for _, wrong := range []struct {
		key  string
		from int64
		want api.Error
	}{
		{"svc_wrong", 0, api.Error{Status: 401}},
		// the database is older than it was
		{own.key, 17, api.Error{Status: 409, Code: "CURSOR_BEYOND_LOG"}},
		{"", 0, api.Error{Status: 400}},
	} {
		config := api.Config{URL: s.URL}
		if wrong.key != "" {
			config.Credential = api.Key(wrong.key)
		}
		c, err := api.New(config)
		must.OK(t, err)
		defer c.Close()
		for _, err := range c.Follow(t.Context(), wrong.from) {
			if !errors.Is(err, &wrong.want) {
				t.Error(err)
			}
		}
	}
}

// switchboard leads connections to one server after the other.
type switchboard struct {
	listener net.Listener
	target   atomic.Pointer[string]
}

func newSwitchboard(t *testing.T) *switchboard {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	w := &switchboard{listener: listener}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			go w.connect(in)
		}
	}()
	return w
}

func (w *switchboard) to(s *service) {
	address := s.URL[len("http://"):]
	w.target.Store(&address)
}

func (w *switchboard) connect(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", *w.target.Load())
	if err != nil {
		return
	}
	defer out.Close()
	ended := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1]) // ends when either is closed
			ended <- struct{}{}
		}()
	}
	<-ended
}
