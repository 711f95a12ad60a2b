package chain_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"attestd/chain"
)

// Records are hashed and signed while the commit before theirs syncs, at the places that they will
// probably have. Whatever becomes of that commit and of those that wait, each acknowledged record
// is at its place and nothing else is on disk. The time of a record shows whether it was taken as
// it was sealed ahead, when it arrived, or was sealed anew, after the sync.
func TestSealedWhileACommitSyncs(t *testing.T) {
	t.Parallel()
	unknown := fmt.Errorf("%w: %w", chain.ErrUnknown, errDisk)
	for _, c := range []struct {
		name string
		// of the commit of records 1 to 3, and of the one after it
		step      string
		err       error
		times     int
		meanwhile func(*testing.T, *disk, *chain.Log, context.CancelFunc)
		next      int64 // index of the first record that was sealed ahead, or should have been
		ahead     bool  // it was taken as it was
		lost      int   // of the five that waited
	}{
		{name: "the commit succeeds", next: 4, ahead: true},
		{name: "it fails and nothing is written", step: "commit", err: errDisk, times: 1, next: 1},
		{name: "it fails twice in a row", step: "commit", err: errDisk, times: 2, next: 1, lost: 5},
		{name: "it is unknown and was not written", step: "commit", err: unknown, times: 1, next: 1},
		{name: "it is unknown and was written", step: "committed", err: unknown, times: 1, next: 4, ahead: true},
		{name: "unknown and written twice in a row", step: "committed", err: unknown, times: 2, next: 4, lost: 5},
		// the records of the batch are later now than those that wait
		{name: "it is lost and tried again", step: "commit", err: chain.ErrTransactionLost, times: 1, next: 4},
		{name: "the key changes", next: 4, meanwhile: func(_ *testing.T, d *disk, l *chain.Log, _ context.CancelFunc) {
			d.tamper(1, func(s *stored) { s.keys.private = slices.Clone(s.keys.private) })
		}},
		{name: "the first that waits leaves", next: 4, lost: 1, meanwhile: func(_ *testing.T, _ *disk, _ *chain.Log, leave context.CancelFunc) {
			leave()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDisk(1)
				l := chain.NewLog(d)
				stop := run(t, l)
				fault, failing := fail(c.times, c.step, c.err), false
				next := map[string]chan struct{}{"extend": make(chan struct{}), "commit": make(chan struct{})}
				d.setFault(func(step string, _ int64) error {
					if gate := next[step]; gate != nil {
						<-gate
					}
					if failing {
						return fault(step, 0)
					}
					return nil
				})
				// A commit of one record syncs while three wait, and theirs while five wait: two
				// that came before it began, and three that have come since.
				before := []func() (chain.Record, error){appendLater(l, draft(1, 0))}
				next["extend"] <- struct{}{}
				synctest.Wait()
				for i := range 3 {
					before = append(before, appendLater(l, draft(1, 1+i)))
				}
				next["commit"] <- struct{}{}
				synctest.Wait()
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				waiting := []func() (chain.Record, error){appendLaterIn(ctx, l, draft(1, 4)), appendLater(l, draft(1, 5))}
				next["extend"] <- struct{}{}
				synctest.Wait()
				for i := range 3 {
					waiting = append(waiting, appendLater(l, draft(1, 6+i)))
				}
				arrived := chain.FormatTime(time.Now())
				crashed := d.clone()
				if c.meanwhile != nil {
					c.meanwhile(t, d, l, leave)
					synctest.Wait()
				}
				time.Sleep(time.Second)
				failing = true
				close(next["extend"])
				close(next["commit"])

				lost := 0
				var records []chain.Record
				for _, answer := range before {
					answer()
				}
				for _, answer := range waiting {
					r, err := answer()
					if err != nil {
						lost++
						continue
					}
					records = append(records, r)
				}
				stop()

				if lost != c.lost {
					t.Errorf("%d of those that waited failed, want %d", lost, c.lost)
				}
				slices.SortFunc(records, func(a, b chain.Record) int { return int(a.Index - b.Index) })
				for i, r := range records {
					if r.Index >= int64(len(d.chains[1].rows)) {
						t.Fatalf("record %d is not on disk", r.Index)
					}
					if r.Index != c.next+int64(i) {
						t.Errorf("record %d of those that waited has index %d, want %d", i, r.Index, c.next+int64(i))
					}
					if d.chains[1].rows[r.Index].Hash != r.Hash {
						t.Errorf("record %d is not on disk", r.Index)
					}
				}
				if len(records) > 0 && (records[0].Timestamp == arrived) != c.ahead {
					t.Errorf("record %d is of %s, the call of %s: sealed ahead should be %v", records[0].Index, records[0].Timestamp, arrived, c.ahead)
				}
				if v := verify(t, d, 1); !v.Valid || v.Length != int64(len(d.chains[1].rows)) {
					t.Errorf("verdict %+v", v)
				}
				// a process killed between the stages leaves what was committed
				if v := verify(t, crashed, 1); !v.Valid || v.Length != 1 {
					t.Errorf("verdict after a kill %+v, want one record", v)
				}
				grow(t, d, 1, 20, 23)
				grow(t, crashed, 1, 20, 23)
			})
		})
	}
}

// heldLog returns a log that has one record, with the key "a", and whose next commits each wait for
// syncing.
func heldLog(t *testing.T) (d *disk, l *chain.Log, syncing chan struct{}, stop func()) {
	t.Helper()
	d = newDisk(1)
	l = chain.NewLog(d)
	stop = run(t, l)
	if _, err := submit(l, keyedDraft(1, 0, "a"))(); err != nil {
		t.Fatal(err)
	}
	syncing = make(chan struct{})
	d.setFault(func(s string, _ int64) error {
		if s == "commit" {
			<-syncing
		}
		return nil
	})
	return d, l, syncing, stop
}

// Callers that retry what is written shift the places of all behind them. The records come out
// right all the same.
func TestSealedBehindARetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, l, syncing, stop := heldLog(t)
		first := []func() ([]chain.Appended, error){submit(l, draft(1, 1))}
		synctest.Wait()
		first = append(first, submit(l, draft(1, 2)))
		synctest.Wait()
		syncing <- struct{}{} // the second commit begins while the rest arrives
		synctest.Wait()
		retry := submit(l, keyedDraft(1, 0, "a"))
		synctest.Wait()
		behind := submit(l, draft(1, 3), draft(1, 4))
		synctest.Wait()
		close(syncing)
		if r, err := retry(); err != nil || !r[0].Replayed || r[0].Index != 0 {
			t.Errorf("the retry: %+v, %v", r, err)
		}
		if r, err := behind(); err != nil || r[0].Index != 3 || r[1].Index != 4 {
			t.Errorf("behind the retry: %+v, %v", r, err)
		}
		for _, answer := range first {
			if _, err := answer(); err != nil {
				t.Error(err)
			}
		}
		stop()
		if v := verify(t, d, 1); !v.Valid || v.Length != 5 {
			t.Errorf("verdict %+v", v)
		}
	})
}

// While most of what is sealed ahead is of no use, as among retries of what is written, nothing is.
func TestRetriesAreNotSealedForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, l, syncing, stop := heldLog(t)
		answers := []func() ([]chain.Appended, error){submit(l, draft(1, 1))}
		synctest.Wait()
		// These are a batch, during whose commit the retries are sealed in vain, and these are one
		// during whose commit the last record comes.
		for _, batch := range [][]chain.Draft{{draft(1, 2), draft(1, 3)}, {keyedDraft(1, 0, "a"), keyedDraft(1, 0, "a")}} {
			for _, one := range batch {
				answers = append(answers, submit(l, one))
				synctest.Wait()
			}
			syncing <- struct{}{}
			synctest.Wait()
		}
		arrived := chain.FormatTime(time.Now())
		last := submit(l, draft(1, 4))
		synctest.Wait()
		time.Sleep(time.Second)
		close(syncing)
		if r, err := last(); err != nil || r[0].Index != 4 || r[0].Timestamp == arrived {
			t.Errorf("the last record: %+v, %v; the call was at %s", r, err, arrived)
		}
		for _, answer := range answers {
			if _, err := answer(); err != nil {
				t.Error(err)
			}
		}
		stop()
	})
}
