package jobs

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"attestd/store/verified"
)

// A pass is due when its interval has passed since the last one began, and at once while one is
// unfinished, before the first one, and when the clock was set back.
func TestWhenAPassIsDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for _, c := range []struct {
		name  string
		state verified.Contents
		want  time.Duration
	}{
		{"never", verified.Contents{}, 0},
		{"an hour ago", verified.Contents{Last: verified.Pass{Begun: now.Add(-time.Hour), Ended: now}}, 23 * time.Hour},
		{"two days ago", verified.Contents{Last: verified.Pass{Begun: now.Add(-48 * time.Hour), Ended: now}}, 0},
		{"in the future", verified.Contents{Last: verified.Pass{Begun: now.Add(time.Hour), Ended: now.Add(time.Hour)}}, 0},
		{"unfinished", verified.Contents{Last: verified.Pass{Begun: now.Add(-time.Hour)}, Current: verified.Pass{Begun: now}}, 0},
	} {
		w := &Integrity{Every: 24 * time.Hour, state: c.state}
		if got := w.untilDue(now); got != c.want {
			t.Errorf("%s: due in %v, want %v", c.name, got, c.want)
		}
	}
}

func TestIntegrityStatusCounts(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	w := &Integrity{Every: time.Hour, total: 9, failing: map[int64]string{3: "why"}}
	if s := w.Status(); !s.On || s.Pending != 0 || !s.Since.IsZero() {
		t.Errorf("before the first pass: %+v", s)
	}
	w.state.Current = verified.Pass{Begun: begun}
	for number, found := range map[int64]outcome{1: outcomeVerified, 2: outcomeVerified, 3: outcomeFailed, 4: outcomeUnread} {
		w.count(number, found)
	}
	want := verified.Pass{Begun: begun, Reached: 4, Verified: 2, Failed: 1, Unread: 1}
	if s := w.Status(); s.Current != want || s.Pending != 5 || s.Failing != 1 {
		t.Errorf("%+v", s)
	}
}

// On a file the tables are compared once after the start, and the background verification does the
// rest: the metrics follow whichever ended last, and count a company that fails in both once.
func TestVerificationMetricsFollowTheLastPass(t *testing.T) {
	t.Parallel()
	started := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	w := &Integrity{Tables: &TableWatch{log: slog.New(slog.DiscardHandler), reported: map[int64]string{}}, failing: map[int64]string{}}
	if got := w.Verification(); got != (VerificationStatus{}) {
		t.Errorf("before the first pass: %+v", got)
	}
	w.Tables.checked.Store(7)
	w.Tables.ended.Store(started.Unix())
	if got := w.Verification(); got.Checked != 7 || !got.Ended.Equal(started) {
		t.Errorf("after the comparison that follows the start: %+v", got)
	}
	later := started.Add(72 * time.Hour)
	w.state.Last = verified.Pass{Begun: later.Add(-time.Hour), Ended: later, Verified: 5, Failed: 2, Unread: 1}
	w.Tables.say(3, errors.New("the tables differ"))
	w.failing[-3], w.failing[4] = "a record was changed", "a record was changed"
	if got := w.Verification(); got.Checked != 8 || got.Failing != 2 || !got.Ended.Equal(later) {
		t.Errorf("after a pass three days later: %+v", got)
	}
}
