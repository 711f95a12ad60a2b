package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"attestd/internal/harness"
)

// kills ends a server with SIGKILL at a random moment while many clients write, starts the next one
// on the same file, and repeats that. Everything acknowledged must be there after each round:
// records, keys, deletions and revocations.
func kills(ctx context.Context, r *harness.Run) error {
	s, db, err := r.Lab.ServeNew(ctx, "--rate-limits", "off")
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }()
	c := &harness.Client{Addr: s.Addr}
	key, err := c.Register("acme")
	if err != nil {
		return err
	}
	if err := c.RegisterBot(key); err != nil {
		return err
	}
	rounds := 50
	if r.Short {
		rounds = 5
	}
	all := newJournal()
	for round := range rounds {
		r.Step(round, rounds, "kills")
		j := newJournal()
		life := time.Duration(r.Chance.Int64N(int64(400 * time.Millisecond)))
		if err := underLoad(ctx, r, j, s, key, life); err != nil {
			return err
		}
		verdicts, err := r.Lab.Verify(ctx, db)
		if err != nil {
			return err
		}
		next, err := r.Lab.Serve(ctx, db, "--rate-limits", "off")
		if err != nil {
			return err
		}
		s = next
		c.Close()
		c.Addr = s.Addr
		for _, wrong := range append(all.take(j, verdicts["acme"]), j.ask(c, key, math.MaxInt64)...) {
			r.Failf("round %d: %s", round, wrong)
		}
		if round == rounds-1 {
			for _, wrong := range all.ask(c, key, math.MaxInt64) {
				r.Failf("in the end: %s", wrong)
			}
		}
	}
	r.Count(rounds, "kills")
	r.Count(len(all.records), "acknowledged records")
	r.Count(len(all.keys), "keys")
	r.Count(len(all.passports), "passports")
	if err := s.Stop(); err != nil {
		return err
	}
	_, err = r.Lab.Verify(ctx, db)
	return err
}

// underLoad lets 16 clients write, and kills the server after a time.
func underLoad(
	ctx context.Context, r *harness.Run, j *journal, s *harness.Service, key string, life time.Duration,
) error {
	var clients sync.WaitGroup
	for who := range 16 {
		clients.Go(func() {
			w := &scribe{Client: harness.Client{Addr: s.Addr}, journal: j, key: key}
			defer w.Close()
			for n := 0; ; n++ {
				_, err := w.write(who%8, n)
				if answered := (*harness.StatusError)(nil); errors.As(err, &answered) {
					r.Failf("%v", answered)
				}
				if err != nil { // the server was killed
					return
				}
			}
		})
	}
	timer := time.NewTimer(life)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	err := s.Kill()
	clients.Wait()
	return errors.Join(err, ctx.Err())
}

// take adds the journal of a round, and lists contradictions with the previous ones or with the
// verdict on the file.
func (j *journal) take(round *journal, v harness.Verdict) (wrong []string) {
	for index, hash := range round.hashes {
		if j.hashes[index] != "" {
			wrong = append(wrong, fmt.Sprintf("index %d was acknowledged before, and now again", index))
		}
		if index >= v.Records {
			wrong = append(wrong, fmt.Sprintf("record %d was acknowledged, the file has %d", index, v.Records))
		}
		j.hashes[index], j.records[index] = hash, 0
	}
	for key, l := range round.keys {
		j.keys[key] = l
	}
	for jti, l := range round.passports {
		j.passports[jti] = l
	}
	return wrong
}
