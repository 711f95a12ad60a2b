package server

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"attestd/server/export"
	"attestd/server/metrics"
	"attestd/store"
)

// An export that ends at once each time it begins is behind since the first end, until one runs for
// a while or another server has the duty.
func TestExportThatKeepsEndingIsBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		to := export.NewFile("lines")
		e := &exporter{Export: &Export{Destination: to}}
		began := time.Now()
		begin := func() { e.running, e.began = export.New(export.Config{Destination: to}), time.Now() }
		for range 150 {
			begin()
			e.noteEnd(errors.New("the position is strange"), false)
			time.Sleep(exportAgain)
		}
		if s := e.Status(); s.Failures != 150 || !s.BehindSince.Equal(began) || s.LastError == "" || s.Destination == "" || !e.isBehind(time.Now()) {
			t.Errorf("after %v: %+v", time.Since(began), s)
		}
		begin()
		if !e.isBehind(time.Now()) {
			t.Error("one that has just begun is no recovery")
		}
		time.Sleep(exportSteady + time.Second)
		if s := e.Status(); e.isBehind(time.Now()) || s.Failures != 0 {
			t.Errorf("one that runs: %+v", s)
		}
		e.noteEnd(errors.New("again"), false)
		if s := e.Status(); s.Failures != 1 || e.isBehind(time.Now()) {
			t.Errorf("a new failure: %+v", s)
		}
		e.noteEnd(nil, false)
		if s := e.Status(); s.Failures != 0 || s.Destination != "" {
			t.Errorf("without the duty: %+v", s)
		}
	})
}

// Before the export has looked at the logs it is unknown how far behind it is, and metrics say
// nothing of that: a zero would look like an answer.
func TestExportIsNotMeasuredBeforeItsFirstLook(t *testing.T) {
	t.Parallel()
	to := export.NewFile("lines")
	s := &Server{exporter: &exporter{Export: &Export{Destination: to}}}
	s.exporter.running, s.exporter.began = export.New(export.Config{Destination: to}), time.Now().Add(-time.Hour)
	m := metrics.New("1.0.0")
	m.Add(s.exportValues()...)
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	shown := answer.Body.String()
	for _, name := range []string{"attestd_export_behind_records", "attestd_export_lag_seconds", "attestd_export_stopped_logs"} {
		if strings.Contains(shown, "\n"+name+" ") {
			t.Errorf("%s has a series:\n%s", name, shown)
		}
	}
	if !strings.Contains(shown, "\nattestd_export_delivered_lines_total 0\n") {
		t.Errorf("what is known is not shown:\n%s", shown)
	}
}

// Companies that cannot be counted are not known: neither zero nor what they were.
func TestCompaniesThatCannotBeCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		c := newCompanyCount(func(ctx context.Context) (store.Usage, error) {
			if fails.Load() {
				<-ctx.Done() // the database hangs
				return store.Usage{}, ctx.Err()
			}
			return store.Usage{Companies: 7}, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.run(ctx) }()
		synctest.Wait()
		if u := c.Status(); u == nil || u.Companies != 7 {
			t.Errorf("at the start: %+v", u)
		}
		fails.Store(true)
		time.Sleep(countEvery + countTimeout + time.Second)
		synctest.Wait()
		if u := c.Status(); u != nil {
			t.Errorf("while the database hangs: %+v", u)
		}
		fails.Store(false)
		c.again()
		time.Sleep(countEvery + countTimeout + time.Second)
		synctest.Wait()
		if u := c.Status(); u == nil || u.Companies != 7 {
			t.Errorf("after it: %+v", u)
		}
		cancel()
		<-ended
	})
}
