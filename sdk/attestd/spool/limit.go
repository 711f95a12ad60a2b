package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"attestd/internal/regular"
)

// limitedAs names the file of the backlog.
const limitedAs = "limited"

const (
	window  = time.Minute     // of the service's limits
	minWait = 5 * time.Second // after the limit was reached
)

// few is how many items are sent without knowing the limit: more might take all that is left of it.
const few = 10

// backlog is what waits because of the rate limit. It may take half of the limit, so that what
// happens meanwhile finds the other half free. Its file says where it ends, the limit, and then
// when how many of it were sent; it is not synced, for what is lost of it bears on order and pace
// alone.
type backlog struct {
	last  uint64 // number of the last queue that is a part of it; 0 is none
	limit int    // of the service, as it was last heard; 0 is unknown
	sent  []sent // within the window, ascending
}

// sent is how many items were sent at a time, in milliseconds since 1970.
type sent struct {
	at    int64
	count int
}

func (s *Spool) backlog(now time.Time) (b backlog, err error) {
	f, err := regular.Open(s.path(limitedAs), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return b, err
	}
	defer f.Close()
	if _, err := fmt.Fscan(f, &b.last, &b.limit); err != nil {
		return backlog{}, nil
	}
	for {
		var e sent
		if _, err := fmt.Fscan(f, &e.at, &e.count); err != nil {
			return b, nil
		}
		if at := time.UnixMilli(e.at); at.After(now.Add(-window)) && !at.After(now) && e.count > 0 {
			b.sent = append(b.sent, e)
		}
	}
}

func (s *Spool) saveBacklog(b backlog) error {
	if b.last == 0 {
		if err := os.Remove(s.path(limitedAs)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text := fmt.Appendln(nil, b.last, b.limit)
	for _, e := range b.sent {
		text = fmt.Appendln(text, e.at, e.count)
	}
	return os.WriteFile(s.path(limitedAs), text, 0o600)
}

// spent is how much of the backlog was sent within the window, and when the oldest of that leaves
// it.
func (b *backlog) spent(now time.Time) (count int, until time.Time) {
	for len(b.sent) > 0 && !time.UnixMilli(b.sent[0].at).After(now.Add(-window)) {
		b.sent = b.sent[1:]
	}
	for _, e := range b.sent {
		count += e.count
	}
	if len(b.sent) > 0 {
		until = time.UnixMilli(b.sent[0].at).Add(window)
	}
	return count, until
}

// limited reports whether the service has spoken of its limit; another's refusal says nothing of
// when to go on.
func (f *flush) limited() bool {
	_, known := f.client.AttestQuota()
	return known
}

// room is how many of so many items may be sent at once, as far as is known. Of the backlog, and of
// more than there is room for, only half of the limit goes in any minute. Where nothing is known
// yet one item finds out.
func (f *flush) room(items int, late bool) (int, error) {
	now := time.Now()
	q, known := f.client.AttestQuota()
	over := known && !now.Before(q.Reset) // what was left then says nothing now
	if known {
		f.backlog.limit = q.Limit
	}
	switch {
	case !known && f.asked, !known && !late && items <= few:
		// a service without limits says nothing of them
		return items, nil
	case !late && over && items <= few, !late && known && !over && items <= q.Remaining:
		return items, nil
	}
	spent, until := f.backlog.spent(now)
	left := max(1, f.backlog.limit/2) - spent
	switch {
	case !known && (left > 0 || f.backlog.limit == 0):
		left = 1
	case known && !over && q.Remaining-q.Limit/10 < left:
		left, until = q.Remaining-q.Limit/10, q.Reset
	}
	if left > 0 {
		return min(left, items), nil
	}
	return 0, &LimitedError{After: max(until.Sub(now), minWait)}
}
