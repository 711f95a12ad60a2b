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

// reader is a log's reader. Each write blocks until next receives it.
type reader chan string

func (r reader) Write(p []byte) (int, error) {
	r <- string(p)
	return len(p), nil
}

// next returns the next write and the time until it came.
func (r reader) next() (text string, after time.Duration) {
	began := time.Now()
	text = <-r
	return text, time.Since(began)
}

func dropped(n int) string { return fmt.Sprintf("%d dropped\n", n) }

// onLog runs f with a log and its reader.
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

func TestLogBatchesLines(t *testing.T) {
	t.Parallel()
	onLog(t, func(t *testing.T, b *logBuffer, r reader) {
		io.WriteString(b, "one\n")
		time.Sleep(logDelay - 1)
		io.WriteString(b, "two\n")
		gets(t, r, "one\ntwo\n", 1)

		time.Sleep(time.Hour) // the queue is empty, so nothing is written
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

// A warning is written at once, with the lines queued before it.
func TestLogFlushesWarnings(t *testing.T) {
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

// A write never waits for the reader. Lines that do not fit into the queue are counted, and the
// batch ends with their number.
func TestLogCountsDroppedLines(t *testing.T) {
	t.Parallel()
	onLog(t, func(t *testing.T, b *logBuffer, r reader) {
		began := time.Now()
		io.WriteString(b, "taken\n")
		b.flush()
		synctest.Wait() // the goroutine is stuck with that line
		line := strings.Repeat("x", 99) + "\n"
		room := logCapacity / len(line)
		for range room + 7 {
			io.WriteString(b, line)
		}
		io.WriteString(b, "small\n") // would fit, but lines must stay in order
		if waited := time.Since(began); waited != 0 {
			t.Errorf("lines waited %v for the reader", waited)
		}
		gets(t, r, "taken\n", 0)
		gets(t, r, strings.Repeat(line, room)+"8 dropped\n", 0)
		io.WriteString(b, "after\n")
		gets(t, r, "after\n", logDelay)
		b.stop()
	})
}

// failing is a writer whose nth write accepts accepts[n] bytes and then fails; -1 accepts all.
type failing struct {
	accepts []int
	got     bytes.Buffer
}

func (f *failing) Write(p []byte) (int, error) {
	n := f.accepts[0]
	f.accepts = f.accepts[1:]
	if n < 0 {
		return f.got.Write(p)
	}
	f.got.Write(p[:n])
	return n, errors.New("no space left on device")
}

// Lines whose write failed are counted too, and the line after a torn one begins on a new line.
func TestLogCountsFailedWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &failing{accepts: []int{5, 0, 0, -1, -1, -1}}
		b := startLog(out, dropped)
		for _, batch := range []string{"one\ntwo\nthree\n", "four\n", "five\n", "six\n"} {
			io.WriteString(b, batch)
			b.flush()
			synctest.Wait()
		}
		b.stop()
		if want := "one\nt\nfive\n3 dropped\nsix\n"; out.got.String() != want {
			t.Errorf("%q, want %q", out.got.String(), want)
		}
	})
}

// stop writes all lines, but waits for a blocked reader only for logPatience.
func TestLogStopIsBounded(t *testing.T) {
	t.Parallel()
	onLog(t, func(t *testing.T, b *logBuffer, r reader) {
		io.WriteString(b, "one\n")
		b.flush()
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

// The line about dropped lines has the same format as the other lines.
func TestDroppedLines(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		"text": `level=WARN msg="3 log lines were dropped: standard error could not be written"` + "\n",
		"json": `"level":"WARN","msg":"3 log lines were dropped: standard error could not be written"}` + "\n",
	} {
		if line := (serveFlags{logs: logFlags{format: format}}).droppedLines(3); !strings.HasSuffix(line, want) || strings.Count(line, "\n") != 1 {
			t.Errorf("%s: %q", format, line)
		}
	}
}
