package jobs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"attestd/store/db"
)

// Requests that ask whether the server is ready share one check, and none gets the result of a
// check that began before it came.
func TestReadinessRequestsShareAWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		checks, release := 0, make(chan error)
		r := NewReadyCheck(func(context.Context) error {
			checks++
			return <-release
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		answers := make(chan error, 100)
		ask := func() { answers <- r.Ask(t.Context()) }
		go ask()
		synctest.Wait()
		for range 99 {
			go ask()
		}
		synctest.Wait()
		failed := errors.New("failed")
		release <- failed
		synctest.Wait()
		if err := <-answers; checks != 2 || !errors.Is(err, failed) || len(answers) > 0 {
			t.Errorf("%d checks, the first answer is %v, and %d more", checks, err, len(answers))
		}
		release <- nil
		synctest.Wait()
		for range 99 {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		if checks != 2 {
			t.Errorf("%d checks for 100 requests", checks)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
}

// A duty is unknown when the database has not named its holder for longer than a duty lasts. It is
// never unknown with a database file.
func TestUnknownDuty(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for is, want := range map[db.DutyStatus]bool{
		{Held: true}: false,
		{Held: true, Answered: now.Add(-9 * time.Second)}:  false,
		{Held: false, Answered: now.Add(-9 * time.Second)}: false,
		{Held: false, Answered: now.Add(-time.Minute)}:     true,
	} {
		if is.IsUnknown(now) != want {
			t.Errorf("%+v is unknown: %t", is, !want)
		}
	}
}
