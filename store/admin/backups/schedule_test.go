package backups_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"attestd/internal/must"
	"attestd/store/admin/backups"
)

// A backup is made when the newest is as old as the interval, and at the interval from then on. One
// that fails is an error in the log each time, and is tried again sooner.
func TestScheduleMakesBackups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var log bytes.Buffer
		var failing atomic.Bool
		s := &backups.Schedule{To: "there", Every: 6 * time.Hour, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Newest: func(context.Context) (time.Time, error) { return start.Add(-4 * time.Hour), nil },
			Make: func(context.Context) (m backups.Made, err error) {
				time.Sleep(time.Minute)
				if failing.Load() {
					return m, errors.New("the disk is full")
				}
				m.Name, m.Records = "new", 7
				return m, nil
			}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		synctest.Wait()
		if now := s.Status(); !now.Next.Equal(start.Add(2*time.Hour)) || !now.LastSuccess.Equal(start.Add(-4*time.Hour)) || now.Running || now.Overdue(time.Now()) {
			t.Errorf("at the start: %+v", now)
		}
		time.Sleep(2*time.Hour + time.Second)
		synctest.Wait()
		if now := s.Status(); !now.Running || !now.LastStart.Equal(start.Add(2*time.Hour)) {
			t.Errorf("while it runs: %+v", now)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if now := s.Status(); now.Running || now.Name != "new" || now.Records != 7 || now.Duration != time.Minute || !now.LastSuccess.Equal(now.LastStart) || !now.Next.Equal(start.Add(8*time.Hour)) {
			t.Errorf("after it: %+v", now)
		}
		failing.Store(true)
		time.Sleep(12 * time.Hour)
		synctest.Wait()
		now := s.Status()
		if now.Failures < 20 || now.Err != "the disk is full" || now.Name != "new" || !now.Overdue(time.Now()) || strings.Count(log.String(), "level=ERROR") != now.Failures {
			t.Errorf("while it fails: %+v\n%s", now, log.String())
		}
		failing.Store(false)
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if now := s.Status(); now.Failures != 0 || now.Err != "" || now.Overdue(time.Now()) {
			t.Errorf("when it works again: %+v", now)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// Without a backup, and after a clock that was ahead when the newest was made, one is due at once.
func TestScheduleBeginsAtOnce(t *testing.T) {
	t.Parallel()
	for name, newest := range map[string]time.Time{"none": {}, "ahead": time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			s := &backups.Schedule{Every: time.Hour, Log: slog.New(slog.DiscardHandler),
				Newest: func(context.Context) (time.Time, error) { return newest, nil },
				Make: func(context.Context) (backups.Made, error) {
					cancel()
					return backups.Made{}, nil
				}}
			start := time.Now()
			if err := s.Run(ctx); !errors.Is(err, context.Canceled) || !time.Now().Equal(start) {
				t.Errorf("%s: after %s: %v", name, time.Since(start), err)
			}
		})
	}
}

// A backup that hangs is overdue as one that fails is, and one that is late only because it has not
// begun is not.
func TestHangingBackupIsOverdue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := &backups.Schedule{Every: time.Hour, Log: slog.New(slog.DiscardHandler),
			Newest: func(context.Context) (time.Time, error) { return start.Add(-24 * time.Hour), nil },
			Make: func(ctx context.Context) (m backups.Made, err error) {
				<-ctx.Done()
				return m, ctx.Err()
			}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		for after, want := range []bool{false, false, true} {
			time.Sleep(time.Until(start.Add(time.Duration(after)*time.Hour + time.Second)))
			synctest.Wait()
			if s.Status().Overdue(time.Now()) != want {
				t.Errorf("after %d hours: %t, want %t", after, !want, want)
			}
		}
		cancel()
		<-ended
	})
}

// A backup of which only a part is there is not the newest: a schedule would wait for the next one
// as if it had one.
func TestTruncatedBackupIsNotTheNewest(t *testing.T) {
	t.Parallel()
	l, place := serve(t), folder(t)
	var names []string
	for step := range 2 {
		made, err := l.make(t, place, step, 0)
		must.OK(t, err)
		names = append(names, made.Name)
	}
	id, err := l.DatabaseID(t.Context())
	must.OK(t, err)
	for i := range 3 {
		newest, err := backups.Newest(t.Context(), place, id)
		must.OK(t, err)
		if want := []string{names[1], names[0], ""}[i]; want == "" && newest.Done() || want != "" && newest.Name.String() != want {
			t.Errorf("the newest is %s, want %q", newest.Name, want)
		}
		if i < 2 {
			must.OK(t, os.Truncate(place.Address(names[1-i]), 512))
		}
	}
}
