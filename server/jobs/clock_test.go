package jobs

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A wall clock that leaps by more than a minute is a warning, in whichever direction, and once; the
// sleep of a laptop, which the boot clock counts too, is none, and nor is a small correction (row
// 26).
func TestClockJumpIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards what follows: the watcher reads it between two ticks
		var out bytes.Buffer
		wall, steady := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), time.Hour
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			read := func() (time.Time, time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				return wall, steady
			}
			ended <- watchClock(ctx, read, new(clockState), slog.New(slog.NewTextHandler(locked{&out, &mu}, nil)))
		}()
		for _, step := range []struct {
			wall, steady time.Duration
			want         string
		}{
			{10 * time.Second, 10 * time.Second, ""},
			{69 * time.Second, 10 * time.Second, ""},
			{8 * time.Hour, 8 * time.Hour, ""},
			{61*time.Minute + 10*time.Second, 10 * time.Second, "leap=1h1m0s now=2026-03-04T14:08:36Z"},
			{10 * time.Second, 10 * time.Second, ""},
			{-2 * time.Hour, 10 * time.Second, "leap=-2h0m10s now=2026-03-04T12:08:46Z"},
		} {
			synctest.Wait()
			mu.Lock()
			out.Reset()
			wall, steady = wall.Add(step.wall), steady+step.steady
			mu.Unlock()
			time.Sleep(clockTick)
			synctest.Wait()
			mu.Lock()
			line := out.String()
			mu.Unlock()
			if step.want == "" && line != "" || !strings.Contains(line, step.want) || strings.Count(line, "\n") > 1 {
				t.Errorf("after %v in %v: %q, want %q", step.wall, step.steady, line, step.want)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	wall, steady := clocks()()
	if wall.IsZero() || steady < 0 || strings.Contains(wall.String(), "m=") {
		t.Errorf("the clocks say %v and %v", wall, steady)
	}
}

// A clock that is more than a second from that of the database, in whichever direction, is a
// warning, once until it is right again; what the way to the database may explain is none, and a
// database that does not answer says nothing.
func TestClockSkewToDatabaseIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type answer struct {
			ahead, within time.Duration
			err           error
		}
		var out bytes.Buffer
		answers, ended := make(chan answer), make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			ended <- compareClocks(ctx, func(ctx context.Context) (time.Duration, time.Duration, error) {
				select {
				case a := <-answers:
					return a.ahead, a.within, a.err
				case <-ctx.Done():
					return 0, 0, ctx.Err()
				}
			}, new(clockState), slog.New(slog.NewTextHandler(&out, nil)))
		}()
		for _, step := range []struct {
			answer
			want string
		}{
			{answer{900 * time.Millisecond, time.Millisecond, nil}, ""},
			{answer{-300 * time.Second, time.Millisecond, nil}, "level=WARN msg=\"the clock is not that of the database: set both by NTP\" ahead=-5m0s"},
			{answer{-300 * time.Second, time.Millisecond, nil}, ""},
			{answer{0, 0, io.ErrUnexpectedEOF}, ""},
			{answer{200 * time.Millisecond, time.Millisecond, nil}, "level=INFO msg=\"the clock is that of the database again\""},
			{answer{1500 * time.Millisecond, 600 * time.Millisecond, nil}, ""},
			{answer{1500 * time.Millisecond, 400 * time.Millisecond, nil}, "ahead=1.5s"},
		} {
			answers <- step.answer
			synctest.Wait() // it waits for the next tick
			if line := out.String(); step.want == "" && line != "" || !strings.Contains(line, step.want) || strings.Count(line, "\n") > 1 {
				t.Errorf("%v: %q, want %q", step.answer, line, step.want)
			}
			out.Reset()
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// locked is a writer behind a lock.
type locked struct {
	io.Writer
	mu *sync.Mutex
}

func (l locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Writer.Write(p)
}

// Leaps in both directions are counted, and ordinary time is not.
func TestClockLeapsAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var wall atomic.Int64
		var status clockState
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		start := time.Now()
		go func() {
			ended <- watchClock(ctx, func() (time.Time, time.Duration) {
				return time.Now().Round(0).Add(time.Duration(wall.Load())), time.Since(start)
			}, &status, slog.New(slog.DiscardHandler))
		}()
		for i, by := range []time.Duration{0, time.Hour, time.Hour, -time.Hour} {
			wall.Store(int64(by))
			time.Sleep(clockTick)
			synctest.Wait()
			if want := []int64{0, 1, 1, 2}[i]; status.leaps.Load() != want {
				t.Errorf("%d: %d leaps, want %d", i, status.leaps.Load(), want)
			}
		}
		stop()
		<-ended
	})
}
