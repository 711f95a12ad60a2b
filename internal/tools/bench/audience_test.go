package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// castServer starts a server that counts appends and whose stream is a caster.
func castServer(t *testing.T) (addr string, appended *atomic.Int64, trigger io.WriteCloser) {
	t.Helper()
	cast := &caster{message: []byte("message")}
	read, write := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cast.run(read)
	}()
	appended = new(atomic.Int64)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, _ *http.Request) {
		appended.Add(1)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "{}")
	})
	mux.HandleFunc("GET /v1/ws", cast.join)
	mux.HandleFunc("GET /clients", cast.count)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		write.Close()
		<-ended
		server.Close()
	})
	return server.Listener.Addr().String(), appended, write
}

// streamOf connects an audience of listeners and the appending clients.
func streamOf(t *testing.T, addr string, listeners int) (*audience, *side) {
	t.Helper()
	a, err := gather(t.Context(), addr, listeners, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := joined(t.Context(), &child{addr: addr}, listeners); err != nil {
		t.Fatal(err)
	}
	clients, err := connect(t.Context(), addr, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		hangUp(clients)
		a.dismiss()
	})
	req := request("POST", "/", "", jsonType, "{}")
	return a, &side{status: 201, request: func(int) []byte { return req }, clients: clients}
}

func TestAudienceCountsMessagesOfAllClients(t *testing.T) {
	t.Parallel()
	addr, appended, trigger := castServer(t)
	a, s := streamOf(t, addr, 5)
	tell := func() error {
		_, err := trigger.Write([]byte{1})
		return err
	}
	rate, err := a.run(t.Context(), s, tell, 50*time.Millisecond)
	if err != nil || rate <= 0 {
		t.Fatalf("rate %v, %v", rate, err)
	}
	if begun, all := appended.Load(), a.all.Load(); all > begun || begun > all+streamWindow {
		t.Errorf("%d appended, %d delivered: the window is %d", begun, all, streamWindow)
	}
}

// The window closes when no message arrives, and a load without deliveries is no measurement.
func TestAudienceDelaysAppends(t *testing.T) {
	t.Parallel()
	addr, appended, _ := castServer(t)
	a, s := streamOf(t, addr, 1)
	if rate, err := a.run(t.Context(), s, func() error { return nil }, 50*time.Millisecond); err == nil {
		t.Errorf("rate %v of a stream that says nothing", rate)
	}
	if n := appended.Load(); n != streamWindow {
		t.Errorf("%d appends, want %d", n, streamWindow)
	}
}

func TestAudienceFailsWhenAClientIsLost(t *testing.T) {
	t.Parallel()
	addr, _, _ := castServer(t)
	a, s := streamOf(t, addr, 2)
	a.clients[1].conn.Close()
	_, err := a.run(t.Context(), s, func() error { return nil }, time.Minute)
	if err == nil || errors.Is(err, t.Context().Err()) {
		t.Errorf("error %v", err)
	}
}
