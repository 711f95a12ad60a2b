package server

import (
	"context"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"attestd/internal/testenv"
	"attestd/server/limit"
	"attestd/store"
	"attestd/store/storetest"
)

// A clock that leaps ahead shows in /readyz until it is right again, and is counted.
func TestClockLeapShowsInReadiness(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	schema, err := os.ReadFile("../schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), storetest.New(t), string(schema), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	s := New(Config{Store: db, Budgets: limit.Defaults(1 << 20), Live: Live{Bounds: DefaultBounds}, Log: slog.New(slog.DiscardHandler), MetricsListener: ln})
	s.status.listener = limit.Listen(ln, limit.Size{}, nil, s.Log)
	defer s.keySets.Close()
	defer s.webhooks.Close()
	var leap atomic.Int64
	began := time.Now()
	go db.Run(context.WithoutCancel(t.Context()), store.RunOptions{Now: func() time.Time {
		return testenv.ReadClocks(time.Now().Round(0).Add(time.Duration(leap.Load())), time.Since(began))
	}})
	reasons := func() []string {
		if err := db.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s.status.degraded().Reasons
	}
	if is := reasons(); len(is) > 0 {
		t.Errorf("before: %v", is)
	}
	leap.Store(int64(time.Hour))
	if is := reasons(); !slices.Equal(is, []string{reasonClockLeap}) {
		t.Errorf("after a leap: %v", is)
	}
	leap.Store(0)
	if is := reasons(); len(is) > 0 {
		t.Errorf("when it is right again: %v", is)
	}
}
