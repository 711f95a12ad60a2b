package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// metricsAddress is where the server with metrics serves them.
const metricsAddress = "127.0.0.1:19464"

// metrics measures appends to a server with metrics, which is scraped each second, in turns with
// appends to one without.
func (b *bench) metrics(ctx context.Context) (err error) {
	with, t, err := b.serveTenant(ctx, "metrics.db", "--metrics-listen", metricsAddress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, with.stop()) }()
	without, plain, err := b.serveTenant(ctx, "plain.db")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, without.stop()) }()
	scraping, stop := context.WithCancel(ctx)
	scraped := make(chan error, 1)
	go func() { scraped <- scrapeEachSecond(scraping) }()
	rounds, each := pick(b.quick, 3, 15), pick(b.quick, 150*time.Millisecond, time.Second)
	for _, clients := range []int{1, 64} {
		column := fmt.Sprintf("%d clients", clients)
		b.say("metrics, %s", column)
		withRequest, plainRequest := attestRequest(t), attestRequest(plain)
		subject := &side{child: with, status: 201, request: func(int) []byte { return withRequest }}
		reference := &side{child: without, status: 201, request: func(int) []byte { return plainRequest }}
		for _, s := range []*side{subject, reference} {
			if s.clients, err = connect(ctx, s.child.addr, clients); err != nil {
				stop()
				return err
			}
			defer hangUp(s.clients)
		}
		c, err := compare(ctx, subject, reference, rounds, each)
		if err != nil {
			stop()
			return fmt.Errorf("metrics, %s: %w", column, err)
		}
		b.report.add("metrics", column, "appends with metrics, records/s", c.perSecond, perSecond, nil)
		b.report.addRounds("metrics", column, "  ÷ without", c.ratios, atLeast(0.98))
	}
	stop()
	return <-scraped
}

// scrapeEachSecond scrapes as a Prometheus would, more often, until ctx is done.
func scrapeEachSecond(ctx context.Context) error {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+metricsAddress+"/metrics", nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("scrape: %w", err)
		}
		_, err = io.Copy(io.Discard, res.Body)
		if closed := res.Body.Close(); ctx.Err() == nil && (err != nil || closed != nil || res.StatusCode != http.StatusOK) {
			return fmt.Errorf("scrape: status %d, %w", res.StatusCode, errors.Join(err, closed))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}
