package jobs

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"attestd/server/export"
)

// An export that ends at once each time it begins is behind since the first end, until one runs for
// a while or another server has the duty.
func TestExportThatKeepsEndingIsBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		to := export.NewFile("lines")
		e := &Exporter{Export: &Export{Destination: to}}
		e.running = export.New(export.Config{Destination: to})
		e.began = time.Now().Add(-time.Hour)
		if s := e.Status(); s.Measured || s.Destination == "" {
			t.Errorf("one that has not looked at the logs: %+v", s)
		}
		began := time.Now()
		begin := func() { e.running, e.began = export.New(export.Config{Destination: to}), time.Now() }
		for range 150 {
			begin()
			e.recordEnd(errors.New("the position is strange"), false)
			time.Sleep(exportRetry)
		}
		if s := e.Status(); s.Failures != 150 || !s.BehindSince.Equal(began) || s.LastError == "" || s.Destination == "" || !e.IsBehind(time.Now()) {
			t.Errorf("after %v: %+v", time.Since(began), s)
		}
		begin()
		if !e.IsBehind(time.Now()) {
			t.Error("one that has just begun is no recovery")
		}
		time.Sleep(exportSteady + time.Second)
		if s := e.Status(); e.IsBehind(time.Now()) || s.Failures != 0 {
			t.Errorf("one that runs: %+v", s)
		}
		e.recordEnd(errors.New("again"), false)
		if s := e.Status(); s.Failures != 1 || e.IsBehind(time.Now()) {
			t.Errorf("a new failure: %+v", s)
		}
		e.recordEnd(nil, false)
		if s := e.Status(); s.Failures != 0 || s.Destination != "" {
			t.Errorf("without the duty: %+v", s)
		}
	})
}
