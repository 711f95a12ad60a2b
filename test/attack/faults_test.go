package attack

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"attestd/internal/harness"
	"attestd/internal/sleep"
)

// faultWriters is the number of clients that append while a disk is tampered with or fails.
const faultWriters = 8

// written counts the outcomes of a company's appends.
type written struct{ acknowledged, unknown, refused atomic.Int64 }

// write appends until the context is done, or an append is refused with one of the codes in ends.
func (w *written) write(ctx context.Context, addr, key string, ends ...string) {
	w.writeSome(ctx, addr, key, math.MaxInt64, ends...)
}

// writeSome is write with a maximum number of appends.
func (w *written) writeSome(ctx context.Context, addr, key string, most int64, ends ...string) {
	var writers sync.WaitGroup
	for who := range faultWriters {
		writers.Go(func() {
			c := &harness.Client{Addr: addr}
			defer c.Close()
			body := fmt.Sprintf(`{"agentId":"bot","actionType":"fill","payload":{"who":%d,"pad":%q}}`, who,
				strings.Repeat("x", 2000))
			for ctx.Err() == nil && w.acknowledged.Load() < most {
				a, err := c.Do(harness.Request{Method: "POST", Path: "/v1/attest", Key: key, Body: body})
				switch text := string(a.Body); {
				case err != nil, strings.Contains(text, "OUTCOME_UNKNOWN"):
					w.unknown.Add(1)
				case a.Status == 201:
					w.acknowledged.Add(1)
				default:
					w.refused.Add(1)
					for _, code := range ends {
						if strings.Contains(text, code) {
							return
						}
					}
				}
			}
		})
	}
	writers.Wait()
}

// hold compares a database at rest with what was acknowledged.
func (w *written) hold(ctx context.Context, r *run, db string) error {
	verdicts, err := r.Lab.Verify(ctx, db)
	if err != nil {
		return err
	}
	if n, least := verdicts["acme"].Records, w.acknowledged.Load(); n < least || n > least+w.unknown.Load() {
		r.Errorf("%d records are there; %d were acknowledged, and of %d nobody knew", n, least, w.unknown.Load())
	}
	return nil
}

// The write-ahead log is emptied or cut under load: the server notices it before it writes on, says
// so at its stop, and nothing acknowledged is lost.
func TestEmptiedLogUnderLoad(t *testing.T) { besieged(t, emptiedLog) }

// emptiedLog removes parts of the write-ahead log under load, repeatedly.
func emptiedLog(ctx context.Context, r *run) error {
	rounds := 60
	if short() {
		rounds = 4
	}
	for round := range rounds {
		if err := emptyOnce(ctx, r, round); err != nil {
			return err
		}
	}
	r.Count(rounds, "logs emptied or cut")
	return nil
}

func emptyOnce(ctx context.Context, r *run, round int) error {
	s, db, err := r.Lab.ServeNew(ctx, "--rate-limits", "off")
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }()
	c := &harness.Client{Addr: s.Addr}
	defer c.Close()
	key, err := c.Register("acme")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, harness.Patience)
	defer cancel()
	var w written
	loaded, unloaded := context.WithCancel(ctx)
	cut := make(chan error)
	pause := time.Duration(50+r.Chance.IntN(400)) * time.Millisecond
	go func() { cut <- cutUntil(loaded, db+"-wal", int64(round%3), pause) }()
	w.write(ctx, s.Addr, key, "FILE_CHANGED")
	unloaded()
	if err := errors.Join(<-cut, ctx.Err()); err != nil {
		return fmt.Errorf("no append was refused: %w", err)
	}
	for path, status := range map[string]int{"/readyz": 503, "/v1/verify": 200} {
		if err := c.Call(status, harness.Request{Method: "GET", Path: path, Key: key}, nil); err != nil {
			r.Errorf("round %d: %v", round, err)
		}
	}
	if round%2 == 0 {
		err = s.Kill()
	} else if end := s.Stop(); end == nil || !strings.Contains(end.Error(), "was cut short or overwritten") {
		r.Errorf("round %d: at its stop the server does not say that its log was changed: %v", round, end)
	}
	return errors.Join(err, w.hold(context.WithoutCancel(ctx), r, db))
}

// cutUntil truncates a log to a number of quarters, and repeats that until the context is done,
// because it may cut off only what is from before the log restarted, which is not missed.
func cutUntil(ctx context.Context, log string, quarters int64, pause time.Duration) error {
	for sleep.For(ctx, pause) == nil {
		info, err := os.Stat(log)
		if err == nil {
			err = os.Truncate(log, info.Size()*quarters/4)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
