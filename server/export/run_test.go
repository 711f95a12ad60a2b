package export_test

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"attestd/chain/evidence"
	"attestd/internal/must"
	"attestd/server/export"
)

var errLost = errors.New("another one has taken over")

// Nothing leaves while another process may have gone on with the export, by no destination, and no
// last checkpoint either. When it is known that none has, the export goes on where it was.
func TestNothingLeavesWithoutDuty(t *testing.T) {
	t.Parallel()
	pair, pool := certificate(t)
	syslog := newCollector(t, pair)
	bySyslog, err := export.NewSyslog(syslog.Addr().String(), &tls.Config{RootCAs: pool})
	must.OK(t, err)
	siem := newSIEM(t)
	siem.answer = func(_ int, _ string, body []byte) (int, string, string, bool) { return 200, "", "", len(body) > 0 }
	path := filepath.Join(t.TempDir(), "lines")
	for what, c := range map[string]struct {
		to       export.Destination
		received func() string
	}{
		"file": {export.NewFile(path), func() string {
			text, err := os.ReadFile(path)
			must.OK(t, err)
			return string(text)
		}},
		"https": {siem.destination(t, "/in", export.FormLines), func() string {
			siem.mu.Lock()
			defer siem.mu.Unlock()
			return strings.Join(siem.lines, "\n") + "\n"
		}},
		"syslog": {bySyslog, syslog.text},
	} {
		m, at := newMemory("acme"), newPositions()
		m.add("acme", 0, 20)
		m.add("acme", 1, 1)
		var asked atomic.Int64
		lost := make(chan struct{})
		_, stop := run(t, export.Config{Source: m, Cursors: at, Destination: c.to, Follow: true, CheckpointAtEnd: true,
			May: func(context.Context) error {
				if asked.Add(1) == 1 {
					close(lost)
				}
				return errLost
			}})
		<-lost
		_ = stop()
		if text := strings.TrimSpace(c.received()); text != "" || len(at.at) > 0 {
			t.Errorf("%s: it has received %q", what, text)
		}
		m.told = map[export.Log]int{}
		must.OK(t, export.New(export.Config{Source: m, Cursors: at, Destination: c.to, CheckpointAtEnd: true, Log: quiet(),
			May: func(context.Context) error { return nil }}).Run(t.Context()))
		isComplete(t, checked(t, "acme", 0, c.received()), 20, 1)
	}
}

// A batch that has left in part when the duty is lost is not completed.
func TestBatchEndsWithDuty(t *testing.T) {
	t.Parallel()
	pair, pool := certificate(t)
	syslog := newCollector(t, pair)
	bySyslog, err := export.NewSyslog(syslog.Addr().String(), &tls.Config{RootCAs: pool})
	must.OK(t, err)
	siem := newSIEM(t)
	siem.answer = func(int, string, []byte) (int, string, string, bool) { return 200, "", "", true }
	for what, to := range map[string]export.Destination{"https": siem.destination(t, "/in", export.FormLines), "syslog": bySyslog} {
		m, at := newMemory("acme"), newPositions()
		m.add("acme", 0, 1000)
		m.add("acme", 1, 1)
		var asked atomic.Int64
		err := export.New(export.Config{Source: m, Cursors: at, Destination: to, Log: quiet(), May: func(context.Context) error {
			if asked.Add(1) > 2 {
				return errLost
			}
			return nil
		}}).Run(t.Context())
		if !errors.Is(err, errLost) || asked.Load() != 3 || len(at.at) > 0 {
			t.Errorf("%s: %v, %v", what, err, at.at)
		}
	}
	siem.mu.Lock()
	defer siem.mu.Unlock()
	for _, text := range []string{syslog.text(), strings.Join(siem.lines, "\n")} {
		if n := strings.Count(text, `"type":"record"`); n >= 1000 {
			t.Errorf("all %d records have left", n)
		}
	}
}

// Of two exporters one hangs in the middle of a batch, which arrives when the other one has gone on
// from the same positions. Their runs have names of their own, and all lines hold.
func TestLateBatchOfAnotherRunHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, to := newMemory("acme"), new(receiver)
		m.add("acme", 0, 100)
		m.add("acme", 1, 1)
		saved := newPositions()
		first := export.Config{Source: m, Cursors: saved, Destination: to, Follow: true, RunName: "first"}
		_, stopFirst := run(t, first)
		synctest.Wait()
		// positions are saved at intervals: the second run reads the earlier ones
		stale := newPositions()
		saved.mu.Lock()
		must.OK(t, stale.Save(saved.at))
		saved.mu.Unlock()
		wakes := make(chan struct{})
		to.mu.Lock()
		to.deliver = func(_ context.Context, take func(int)) error {
			to.mu.Lock()
			to.deliver = nil
			to.mu.Unlock()
			<-wakes
			take(1 << 20)
			return nil
		}
		to.mu.Unlock()
		m.add("acme", 0, 50)
		time.Sleep(time.Second)
		synctest.Wait()
		second := first
		second.Cursors, second.RunName, second.CheckpointAtEnd = stale, "second", true
		_, stopSecond := run(t, second)
		time.Sleep(time.Second)
		m.add("acme", 0, 50)
		time.Sleep(time.Second)
		close(wakes)
		time.Sleep(time.Second)
		_ = stopFirst()
		m.add("acme", 0, 5)
		time.Sleep(time.Second)
		_ = stopSecond()
		v := checked(t, "acme", 0, to.text())
		isComplete(t, v, 205, 1)
		if v.Outcome != evidence.Holds || v.Logs[0].Runs != 2 || v.Logs[0].Repeated == 0 {
			t.Errorf("%+v", v)
		}
		if !strings.Contains(to.text(), `"run":"first"`) || strings.Count(to.text(), `"run":`) != strings.Count(to.text(), "\n") {
			t.Error("not every line has its run")
		}
	})
}
