package export_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"attestd/chain/tlog"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server/export"
)

// run exports until stop is called, which returns the error.
func run(t *testing.T, c export.Config) (e *export.Exporter, stop func() error) {
	t.Helper()
	c.Log = quiet()
	if m, ok := c.Source.(*memory); ok {
		m.mu.Lock()
		m.told = map[export.Log]int{}
		m.mu.Unlock()
	}
	e = export.New(c)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return e, func() error {
		cancel()
		return <-ended
	}
}

func sleepFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return errRefused
}

// Records of several companies are exported while they come, with a checkpoint after some time and
// after some lines, across a rotation of the key.
func TestExportFollows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, to := newMemory("acme", "globex"), new(receiver)
		m.add("acme", 0, 3)
		m.add("acme", 1, 1)
		_, stop := run(t, export.Config{Source: m, Cursors: newPositions(), Destination: to, Follow: true, CheckpointLines: 100})
		synctest.Wait()
		if strings.Contains(to.text(), `"checkpoint"`) || strings.Count(to.text(), `"record"`) != 2*4 {
			t.Errorf("at first: %s", to.text())
		}
		time.Sleep(export.CheckpointEvery)
		synctest.Wait()
		isComplete(t, checked(t, "acme", 0, to.text()), 3, 1)
		m.rotate()
		m.add("acme", 1, 1)
		m.add("globex", 0, 1500)
		synctest.Wait()
		isComplete(t, checked(t, "globex", 0, to.text()), 1500, 0)
		time.Sleep(export.CheckpointEvery)
		synctest.Wait()
		isComplete(t, checked(t, "acme", 1, to.text()), 3, 2)
		before := to.text()
		time.Sleep(time.Hour)
		if to.text() != before {
			t.Error("lines without records")
		}
		if to.most > 1024+8 {
			t.Errorf("%d lines at once", to.most)
		}
		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// Whatever a receiver does with batches, and wherever the exporter is stopped, no record is lost
// and the lines hold. What was not acknowledged comes again.
func TestExportLosesNothing(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			random, fate := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
			m, to, at := newMemory("acme"), new(receiver), newPositions()
			to.deliver = func(ctx context.Context, take func(int)) error {
				switch fate.IntN(4) {
				case 0:
					return errRefused
				case 1: // a part of it arrives
					take(fate.IntN(100))
					return errRefused
				case 2: // all of it, and the answer is lost
					take(1 << 20)
					return sleepFor(ctx, 40*time.Second)
				}
				take(1 << 20)
				return nil
			}
			n := 0
			for range 12 {
				e, stop := run(t, export.Config{Source: m, Cursors: at, Destination: to, Follow: true, CheckpointLines: 50, Linger: time.Second})
				for range 3 {
					n += 30
					m.add("acme", 0, 30)
					m.add("acme", 1, 1)
					time.Sleep(time.Duration(random.IntN(5000)) * time.Millisecond)
				}
				if s := e.Status(); s.Failures > 0 && (s.LastError == "" || (s.Behind == 0) != s.BehindSince.IsZero()) {
					t.Errorf("%+v", s)
				}
				_ = stop()
			}
			to.mu.Lock()
			to.deliver = nil
			to.mu.Unlock()
			e, stop := run(t, export.Config{Source: m, Cursors: at, Destination: to, Follow: true})
			time.Sleep(5 * time.Minute)
			if s := e.Status(); s.Behind != 0 || s.Failures != 0 || s.Delivered == 0 {
				t.Errorf("%+v", s)
			}
			_ = stop()
			isComplete(t, checked(t, "acme", 0, to.text()), int64(n), 36)
		})
	}
}

// A receiver that hangs is given up after three minutes and tried again, later each time. The
// exporter holds one batch, and its status says how far it is behind.
func TestHangingReceiver(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, to := newMemory("acme"), new(receiver)
		var attempts atomic.Int64
		to.deliver = func(ctx context.Context, _ func(int)) error {
			attempts.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}
		e, stop := run(t, export.Config{Source: m, Cursors: newPositions(), Destination: to, Follow: true})
		for range 10 {
			m.add("acme", 0, 200)
			time.Sleep(time.Minute)
		}
		s, n := e.Status(), int(attempts.Load())
		to.mu.Lock()
		most := to.most
		to.mu.Unlock()
		if s.Behind < 1800 || s.Failures != n-1 && s.Failures != n || n < 3 || n > 6 || most > 1032 {
			t.Errorf("%+v after %d attempts, %d lines at once", s, n, most)
		}
		to.mu.Lock()
		to.deliver = nil
		to.mu.Unlock()
		time.Sleep(5 * time.Minute)
		if s := e.Status(); s.Behind != 0 {
			t.Errorf("%+v", s)
		}
		_ = stop()
		isComplete(t, checked(t, "acme", 0, to.text()), 2000, 0)
	})
}

// A log that is shorter than what was exported, or has another history, is not exported on as if it
// were the same. The others are.
func TestExportStopsAtAnotherHistory(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, to, at := newMemory("acme", "globex"), new(receiver), newPositions()
		m.add("acme", 0, 2)
		m.add("acme", 1, 2)
		var f tlog.Frontier
		f, _ = f.Append(make([]tlog.Hash, 5)...)
		at.at[export.Log{CompanyID: "acme", Name: "actions"}] = export.Position{Frontier: f, Previous: 5}
		f = tlog.Frontier{}
		f, _ = f.Append(make([]tlog.Hash, 1)...)
		at.at[export.Log{CompanyID: "acme", Name: "control"}] = export.Position{Frontier: f, Previous: 1}
		e, stop := run(t, export.Config{Source: m, Cursors: at, Destination: to, Follow: true})
		m.add("globex", 0, 2)
		time.Sleep(time.Minute)
		if s := e.Status(); len(s.Stopped) != 2 || s.Failures != 0 {
			t.Errorf("%+v", s)
		}
		_ = stop()
		if strings.Contains(to.text(), "acme") {
			t.Error(to.text())
		}
		isComplete(t, checked(t, "globex", 0, to.text()), 2, 0)
		c := export.Config{Source: newMemory("acme"), Cursors: at, Destination: to, Log: quiet()}
		if err := export.New(c).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "rolled back") {
			t.Error(err)
		}
	})
}

// A log whose next record has no payload is not exported on, and its lines up to there hold. The
// others go on.
func TestExportStopsWherePayloadIsMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, to, at := newMemory("acme", "globex"), new(receiver), newPositions()
		m.add("acme", 0, 3)
		m.add("globex", 0, 2)
		_, stop := run(t, export.Config{Source: m, Cursors: at, Destination: to, Follow: true})
		synctest.Wait()
		time.Sleep(export.CheckpointEvery)
		synctest.Wait()
		isComplete(t, checked(t, "acme", 0, to.text()), 3, 0)
		m.add("acme", 0, 2)
		_ = stop() // it may have sent them
		before := to.text()
		m.add("acme", 0, 1)
		m.add("globex", 0, 1)
		m.companies["acme"][0].records[5].Payload = nil
		e, stop := run(t, export.Config{Source: m, Cursors: at, Destination: to, Follow: true})
		time.Sleep(time.Minute)
		stopped := e.Status().Stopped
		if why := stopped[export.Log{CompanyID: "acme", Name: "actions"}]; len(stopped) != 1 || !strings.Contains(why, "the payload of record 5 was pruned") {
			t.Errorf("%+v", stopped)
		}
		_ = stop()
		if sent := strings.TrimPrefix(to.text(), before); strings.Contains(sent, `"index":5`) {
			t.Error(sent)
		}
		isComplete(t, checked(t, "globex", 0, to.text()), 3, 0)
	})
}

// A file is private and appended to; a moved one is followed by a new one that holds alone; and
// what a killed exporter left of a line goes.
func TestExportToFile(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	m, at := newMemory("acme"), newPositions()
	folder := t.TempDir()
	path := filepath.Join(folder, "lines.ndjson")
	once := func() error {
		m.told = map[export.Log]int{}
		return export.New(export.Config{Source: m, Cursors: at, Destination: export.NewFile(path), CheckpointAtEnd: true, Log: quiet()}).Run(t.Context())
	}
	m.add("acme", 0, 5)
	must.OK(t, once())
	if about, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && about.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", about.Mode(), err)
	}
	m.add("acme", 0, 5)
	must.OK(t, once())
	text, err := os.ReadFile(path)
	must.OK(t, err)
	isComplete(t, checked(t, "acme", 0, string(text)), 10, 0)

	must.OK(t, os.WriteFile(path, append(text, `{"format":"attestd-lines/v1","type":"rec`...), 0o600))
	m.add("acme", 0, 5)
	must.OK(t, once())
	text, err = os.ReadFile(path)
	must.OK(t, err)
	isComplete(t, checked(t, "acme", 0, string(text)), 15, 0)

	must.OK(t, os.Rename(path, path+".1"))
	m.add("acme", 0, 5)
	must.OK(t, once())
	second, err := os.ReadFile(path)
	must.OK(t, err)
	isComplete(t, checked(t, "acme", 0, string(text), string(second)), 20, 0)
	if v := checked(t, "acme", 0, string(second)); v.Logs[0].First != 15 || v.Logs[0].From != 15 || v.Logs[0].To != 20 {
		t.Errorf("%+v", v)
	}

	must.OK(t, os.WriteFile(path, []byte("notes of somebody"), 0o600))
	m.add("acme", 0, 1)
	if err := once(); err == nil || !strings.Contains(err.Error(), "name another file") {
		t.Error(err)
	}
	if stored, _ := os.ReadFile(path); string(stored) != "notes of somebody" {
		t.Errorf("%q", stored)
	}
}

// damaged are cursors of which acme's cannot be read until they are mended.
type damaged struct {
	*positions
	mended atomic.Bool
}

func (d *damaged) Load(ctx context.Context, l export.Log) (export.Position, error) {
	if !d.mended.Load() && l.CompanyID == "acme" {
		return export.Position{}, errRefused
	}
	return d.positions.Load(ctx, l)
}

// A log whose position cannot be read stops alone, says so, and goes on when it can.
func TestDamagedPositionStopsOneCompanyAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, to, at := newMemory("acme", "globex"), new(receiver), &damaged{positions: newPositions()}
		m.add("acme", 0, 3)
		m.add("globex", 0, 3)
		e, stop := run(t, export.Config{Source: m, Cursors: at, Destination: to, Follow: true})
		time.Sleep(time.Minute)
		isComplete(t, checked(t, "globex", 0, to.text()), 3, 0)
		if why := e.Status().Stopped[export.Log{CompanyID: "acme", Name: "actions"}]; !strings.Contains(why, "position") {
			t.Errorf("%+v", e.Status())
		}
		at.mended.Store(true)
		time.Sleep(time.Minute)
		isComplete(t, checked(t, "acme", 0, to.text()), 3, 0)
		if s := e.Status(); len(s.Stopped) > 0 {
			t.Errorf("%+v", s)
		}
		_ = stop()
	})
}

// An export does not write into a file of another program, nor into one that other users may write:
// they could remove lines, and insert others.
func TestFileOfSomethingElseIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lines.ndjson")
	line := `{"format":"attestd-lines/v1","type":"keys"}` + "\n"
	for text, mode := range map[string]os.FileMode{"notes of somebody\n": 0o600, "\n": 0o600, "notes\n" + line: 0o600, line: 0o602} {
		if mode&0o002 != 0 && runtime.GOOS == "windows" {
			continue
		}
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		must.OK(t, os.Chmod(path, mode))
		if _, err := export.NewFile(path).Prepare(); err == nil || !strings.Contains(err.Error(), "name another file") {
			t.Errorf("%q with mode %o: %v", text, mode, err)
		}
		if stored, _ := os.ReadFile(path); string(stored) != text {
			t.Errorf("%q became %q", text, stored)
		}
	}
	must.OK(t, os.WriteFile(path, []byte(line), 0o600))
	must.OK(t, os.Chmod(path, 0o640)) // the process that forwards it may read it
	f := export.NewFile(path)
	_, err := f.Prepare()
	must.OK(t, err)
	must.OK(t, f.Close())
}

// A running export goes on in a new file when its file was moved, and on Reopen, and loses nothing.
func TestRotatedFile(t *testing.T) {
	t.Parallel()
	m := newMemory("acme")
	path := filepath.Join(t.TempDir(), "lines.ndjson")
	file := export.NewFile(path)
	e, stop := run(t, export.Config{Source: m, Cursors: newPositions(), Destination: file, Follow: true, CheckpointAtEnd: true})
	var texts []string
	n := int64(0)
	for i := range 4 {
		m.add("acme", 0, 100)
		n += 100
		for e.Status().Delivered < n {
			runtime.Gosched()
			if t.Context().Err() != nil {
				t.Fatal("nothing is exported")
			}
			time.Sleep(time.Millisecond)
		}
		moved := path + "." + string(rune('1'+i))
		must.OK(t, os.Rename(path, moved))
		if i%2 == 0 {
			file.Reopen()
		}
		m.add("acme", 0, 1)
		n++
		if i == 3 { // copied and emptied
			text, err := os.ReadFile(path)
			for ; len(text) == 0 || e.Status().Behind > 0 || e.Status().Delivered < n; text, err = os.ReadFile(path) {
				time.Sleep(time.Millisecond)
			}
			must.OK(t, err)
			must.OK(t, os.WriteFile(path+".copied", text, 0o600))
			must.OK(t, os.Truncate(path, 0))
			m.add("acme", 0, 1)
			n++
		}
		for e.Status().Behind > 0 || e.Status().Delivered < n {
			time.Sleep(time.Millisecond)
		}
		text, err := os.ReadFile(moved)
		must.OK(t, err)
		texts = append(texts, string(text))
	}
	_ = stop()
	copied, err := os.ReadFile(path + ".copied")
	must.OK(t, err)
	last, err := os.ReadFile(path)
	must.OK(t, err)
	isComplete(t, checked(t, "acme", 0, append(texts, string(copied), string(last))...), n, 0)
	if v := checked(t, "acme", 0, string(last)); len(v.Logs) != 2 || v.Logs[0].To != n {
		t.Errorf("%+v\n%s", v, last)
	}
}
