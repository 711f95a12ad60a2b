package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// reader is a log's reader that takes one write when it is asked to. Until then the write blocks.
type reader chan string

func (r reader) Write(p []byte) (int, error) {
	r <- string(p)
	return len(p), nil
}

// next returns the next write and how long it was waited for.
func (r reader) next() (text string, after time.Duration) {
	began := time.Now()
	text = <-r
	return text, time.Since(began)
}

func dropped(n int) string { return fmt.Sprintf("%d dropped\n", n) }

// onLog runs f with a log that its reader takes from.
func onLog(t *testing.T, f func(t *testing.T, b *logBuffer, r reader)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := make(reader)
		f(t, startLog(r, dropped), r)
	})
}

func gets(t *testing.T, r reader, text string, after time.Duration) {
	t.Helper()
	if got, waited := r.next(); got != text || waited != after {
		t.Errorf("after %v: %.80q, want after %v: %.80q", waited, got, after, text)
	}
}

func TestLogGathersLines(t *testing.T) {
	t.Parallel()
	onLog(t, func(t *testing.T, b *logBuffer, r reader) {
		io.WriteString(b, "one\n")
		time.Sleep(logDelay - 1)
		io.WriteString(b, "two\n")
		gets(t, r, "one\ntwo\n", 1)

		time.Sleep(time.Hour) // nothing waits, so nothing is written
		io.WriteString(b, "three\n")
		gets(t, r, "three\n", logDelay)

		many := strings.Repeat("x", logSize-1) + "\n"
		io.WriteString(b, many)
		gets(t, r, many, 0)

		io.WriteString(b, "last\n")
		go b.stop()
		gets(t, r, "last\n", 0)
		<-b.ended
	})
}

// A warning is written at once, with what waited before it.
func TestLogHurriesWarnings(t *testing.T) {
	t.Parallel()
	onLog(t, func(t *testing.T, b *logBuffer, r reader) {
		noTime := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}
		log := slog.New(urgentHandler{slog.NewTextHandler(b, noTime), b})
		for _, test := range []struct {
			log   *slog.Logger
			level slog.Level
			want  string
			after time.Duration
		}{
			{log, slog.LevelInfo, "level=INFO msg=first\nlevel=INFO msg=second\n", logDelay},
			{log, slog.LevelWarn, "level=INFO msg=first\nlevel=WARN msg=second\n", 0},
			{log.With("a", 1), slog.LevelError, "level=INFO msg=first\nlevel=ERROR msg=second a=1\n", 0},
			{log.WithGroup("g"), slog.LevelError, "level=INFO msg=first\nlevel=ERROR msg=second g.b=2\n", 0},
		} {
			log.Info("first")
			if strings.Contains(test.want, "g.b") {
				test.log.Log(t.Context(), test.level, "second", "b", 2)
			} else {
				test.log.Log(t.Context(), test.level, "second")
			}
			gets(t, r, test.want, test.after)
		}
		b.stop()
	})
}

// While nobody reads, a line is taken without waiting; those for which there is no room are
// counted, and that is said after the last line before them (row 23).
func TestLogCountsWhatItDrops(t *testing.T) {
	t.Parallel()
	onLog(t, func(t *testing.T, b *logBuffer, r reader) {
		began := time.Now()
		io.WriteString(b, "taken\n")
		b.hurry()
		synctest.Wait() // the goroutine is stuck with that line
		line := strings.Repeat("x", 99) + "\n"
		room := logCapacity / len(line)
		for range room + 7 {
			io.WriteString(b, line)
		}
		io.WriteString(b, "small\n") // there would be room for this one, but it comes after those
		if waited := time.Since(began); waited != 0 {
			t.Errorf("lines waited %v for the reader", waited)
		}
		gets(t, r, "taken\n", 0)
		io.WriteString(b, "too early\n")
		gets(t, r, strings.Repeat(line, room)+"9 dropped\n", 0)
		io.WriteString(b, "after\n")
		gets(t, r, "after\n", logDelay)
		b.stop()
	})
}

// failing takes the given number of bytes of each write and then fails; -1 takes all.
type failing struct {
	takes []int
	got   bytes.Buffer
}

func (f *failing) Write(p []byte) (int, error) {
	n := f.takes[0]
	f.takes = f.takes[1:]
	if n < 0 {
		return f.got.Write(p)
	}
	f.got.Write(p[:n])
	return n, errors.New("no space left on device")
}

// Lines whose write failed are counted too, and a torn one does not spoil the next.
func TestLogCountsFailedWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &failing{takes: []int{5, 0, 0, -1, -1, -1}}
		b := startLog(out, dropped)
		for _, batch := range []string{"one\ntwo\nthree\n", "four\n", "five\n", "six\n"} {
			io.WriteString(b, batch)
			b.hurry()
			synctest.Wait()
		}
		b.stop()
		if want := "one\nt\nfive\n3 dropped\nsix\n"; out.got.String() != want {
			t.Errorf("%q, want %q", out.got.String(), want)
		}
	})
}

// A stop has all written, but does not wait long for a reader that does not come (row 23).
func TestLogStops(t *testing.T) {
	t.Parallel()
	onLog(t, func(t *testing.T, b *logBuffer, r reader) {
		io.WriteString(b, "one\n")
		b.hurry()
		synctest.Wait()
		io.WriteString(b, "two\n")
		began := time.Now()
		b.stop()
		if waited := time.Since(began); waited != logPatience {
			t.Errorf("stopped after %v", waited)
		}
		gets(t, r, "one\n", 0)
		gets(t, r, "two\n", 0)
		<-b.ended
	})
}

// The line about dropped lines has the format of the others.
func TestDroppedLines(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		"text": `level=WARN msg="3 log lines were dropped: standard error did not take them"` + "\n",
		"json": `"level":"WARN","msg":"3 log lines were dropped: standard error did not take them"}` + "\n",
	} {
		if line := (serveFlags{logFormat: format}).droppedLines(3); !strings.HasSuffix(line, want) || strings.Count(line, "\n") != 1 {
			t.Errorf("%s: %q", format, line)
		}
	}
}
