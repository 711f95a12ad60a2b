package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// read reads the whole chains with one reader and then with three, and measures the memory of a
// newly started server.
func (b *bench) read(ctx context.Context, s *shape) error {
	b.say("%s: whole-chain read", s.column)
	for _, readers := range []int{1, 3} {
		memory := watchMemory(s.server.pid())
		start := time.Now()
		read := make([]int64, readers)
		err := each(ctx, readers, func(i int) (err error) {
			read[i], err = readChains(ctx, s)
			return err
		})
		took := time.Since(start)
		grown, known := memory()
		if err != nil {
			return err
		}
		var bytes int64
		for _, n := range read {
			bytes += n
		}
		rate := float64(bytes) / 1e6 / took.Seconds()
		if readers == 1 {
			b.report.add(lengthSection, s.column, "whole-chain read, 1 reader", rate, megabytes, nil)
			continue
		}
		b.report.add(lengthSection, s.column, "whole-chain read, 3 readers at once", rate, megabytes,
			only(s.million, atLeast(100)))
		b.report.add(lengthSection, s.column, "  resident memory grows by", mebi(grown, known), mebibytes,
			only(s.million, atMost(32)))
	}
	return nil
}

func mebi(bytes int64, known bool) float64 {
	if !known {
		return math.NaN()
	}
	return float64(bytes) / (1 << 20)
}

// readChains reads the chains to be visited on one connection and returns their size in bytes.
func readChains(ctx context.Context, s *shape) (total int64, err error) {
	c, err := dial(ctx, s.server.addr)
	if err != nil {
		return 0, err
	}
	defer c.conn.Close()
	c.in = make([]byte, 256<<10)
	defer limit(ctx, []*client{c}, time.Time{})()
	for _, t := range s.tenants[:s.visit] {
		var size int64
		status, err := c.stream(request("GET", "/v1/chain", t.key, "", ""), func(piece []byte) { size += int64(len(piece)) })
		if err != nil {
			return total, err
		}
		if least := int64(s.records * len(callerPayload)); status != 200 || size < least {
			return total, fmt.Errorf("GET /v1/chain: status %d and %d bytes, less than %d records have", status, size, s.records)
		}
		total += size
	}
	return total, nil
}

// prove measures one client that requests proofs of random records in both trees, and consistency
// proofs.
func (b *bench) prove(ctx context.Context, s *shape) error {
	c, err := dial(ctx, s.server.addr)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	logs := make(map[string]string, s.chains) // company ID to log ID
	for _, proof := range []struct {
		name   string
		target float64 // in ms
		path   func(logID string, index int) string
	}{
		{"proof, median", 2, func(_ string, index int) string { return fmt.Sprintf("/v1/proof/%d", index) }},
		{"consistency proof, median", 2, func(_ string, index int) string {
			return fmt.Sprintf("/v1/consistency?from=%d&to=%d", index, s.records)
		}},
		{"tlog-proof, median", 2, func(logID string, index int) string { return fmt.Sprintf("/v1/log/%s/proof/%d", logID, index) }},
		{"evidence, median", 20, func(_ string, index int) string { return fmt.Sprintf("/v1/evidence/%d", index) }},
	} {
		var took []float64
		for range pick(b.quick, 100, 500) {
			t := s.tenants[rand.IntN(s.chains)]
			if logs[t.id] == "" {
				var list struct{ Logs []struct{ LogID string } }
				if _, err := c.ask(ctx, request("GET", "/v1/logs", t.key, "", ""), 200, &list); err != nil {
					return err
				}
				logs[t.id] = list.Logs[0].LogID
			}
			req := request("GET", proof.path(logs[t.id], rand.IntN(s.records)), t.key, "", "")
			start := time.Now()
			if _, err := c.ask(ctx, req, 200, nil); err != nil {
				return err
			}
			took = append(took, millis(time.Since(start)))
		}
		b.report.add(lengthSection, s.column, proof.name, median(took), milli, only(s.million, atMost(proof.target)))
	}
	return nil
}
