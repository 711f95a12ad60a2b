package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// batchOf is the number of records in a batch.
const batchOf = 100

// retries measures appends with unique idempotency keys that begin with the time, like those of our
// clients, and in batches, in turns with plain appends to the same server.
func (b *bench) retries(ctx context.Context) (err error) {
	server, t, err := b.serveTenant(ctx, "append.db")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	plain := attestRequest(t)
	head, body, _ := bytes.Cut(plain, []byte("\r\n\r\n"))
	keyed := func(id func() (uuid.UUID, error)) func(int) []byte {
		return func(int) []byte {
			return fmt.Appendf(make([]byte, 0, len(plain)+64), "%s\r\nIdempotency-Key: %s\r\n\r\n%s", head, uuid.Must(id()),
				body)
		}
	}
	batch := request("POST", "/v1/attest/batch", t.key, "application/json", `{"records":[`+
		strings.TrimSuffix(strings.Repeat(string(body)+",", batchOf), ",")+`]}`)

	rounds, each := pick(b.quick, 3, 7), pick(b.quick, 150*time.Millisecond, time.Second)
	measure := func(clients int, requests func(int) []byte) (comparison, error) {
		subject := &side{child: server, status: 201, request: requests}
		reference := &side{child: server, status: 201, request: func(int) []byte { return plain }}
		for _, s := range []*side{subject, reference} {
			var err error
			if s.clients, err = connect(ctx, server.addr, clients); err != nil {
				return comparison{}, err
			}
			defer hangUp(s.clients)
		}
		return compare(ctx, subject, reference, rounds, each)
	}
	for _, clients := range []int{1, 16, 64} {
		column := fmt.Sprintf("%d clients", clients)
		b.say("idempotency keys, %s", column)
		c, err := measure(clients, keyed(uuid.NewV7))
		if err != nil {
			return fmt.Errorf("idempotency keys, %s: %w", column, err)
		}
		b.report.add("append", column, "with an idempotency key, records/s", c.perSecond, perSecond, nil)
		b.report.addRounds("append", column, "  ÷ without", c.ratios, atLeast(0.9))
	}
	c, err := measure(64, keyed(uuid.NewRandom))
	if err != nil {
		return fmt.Errorf("random keys: %w", err)
	}
	b.report.add("append", "64 clients", "  with a random key ÷ without", c.ratio, ratio, nil)

	b.say("batches")
	var ratios []float64
	for range rounds {
		alone, err := b.rate(ctx, server, plain, pick(b.quick, 1280, 12800))
		if err != nil {
			return fmt.Errorf("single appends: %w", err)
		}
		together, err := b.rate(ctx, server, batch, pick(b.quick, 64, 512))
		if err != nil {
			return fmt.Errorf("batches: %w", err)
		}
		ratios = append(ratios, batchOf*together/alone)
	}
	b.report.addRounds("append", "64 clients", fmt.Sprintf("in batches of %d ÷ single appends", batchOf), ratios,
		atLeast(2))
	return nil
}

// rate returns the rate of responses to 64 clients that send a total of requests. It measures until
// the last response, because many batches run concurrently, and a time limit would discard those.
func (b *bench) rate(ctx context.Context, server *child, req []byte, requests int) (float64, error) {
	clients, err := connect(ctx, server.addr, 64)
	if err != nil {
		return 0, err
	}
	defer hangUp(clients)
	s := &side{child: server, status: 201, request: func(int) []byte { return req }, clients: clients}
	r, err := s.load(ctx, time.Minute, requests)
	return r.perSecond(), err
}
