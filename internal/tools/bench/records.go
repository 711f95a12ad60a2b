package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/jcs"
	"attestd/store"
)

const recordsSection = "search of records"

// records measures the search of a long log in which each range has many agents and types of
// actions: the first page for each filter, and the worst cases, which are two terms that every
// range contains but never in one record, and a text that does not occur.
func (b *bench) records(ctx context.Context) (err error) {
	n := pick(b.quick, 20_000, 1_000_000)
	column := fmt.Sprintf("%d records", n)
	path := filepath.Join(b.dir, "records.db")
	b.say("writing %d records", n)
	t, err := b.seedMixed(ctx, path, n)
	if err != nil {
		return err
	}
	server, err := b.serve(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	for _, q := range []struct {
		name, path string
		most       float64
	}{
		{"first page", "/v1/records", 50},
		{"first page, an agent", "/v1/records?agent=agent-7", 50},
		{"first page, an agent in 10,000", "/v1/records?agent=rare-7", 50},
		{"first page, an action's beginning", "/v1/records?action=tool.3*", 50},
		{"first page, by delegation", "/v1/records?delegatedBy=*", 50},
		{"first page, a day that is not there", "/v1/records?since=2020-01-01T00:00:00.000Z&until=2020-01-02T00:00:00.000Z", 50},
		{"first page, two that never meet", "/v1/records?agent=agent-7&action=tool.5", 50},
		{"first page, two that never meet, oldest first", "/v1/records?agent=agent-7&action=tool.5&order=oldest", 50},
		{"first page, a payload's member", "/v1/records?payload=" + url.QueryEscape("tool=payments.transfer"), 50},
		{"histogram of all", "/v1/records/histogram", 50},
		{"histogram of an agent", "/v1/records/histogram?agent=agent-7", 100},
		{"histogram by agent", "/v1/records/histogram?by=agent&buckets=24", 150},
		{"histogram by action", "/v1/records/histogram?by=action&buckets=24", 150},
		{"whole scan for a text", "/v1/records?q=stands-nowhere&order=oldest", 4000},
		{"whole scan for a payload's member", "/v1/records?order=oldest&payload=" + url.QueryEscape("tool=stands-nowhere"), 4000},
	} {
		req := request("GET", q.path, t.key, "", "")
		if q.most > 1000 { // all in one response
			req = bytes.Replace(req, []byte("\r\n"), []byte("\r\nAccept: application/x-ndjson\r\n"), 1)
		}
		var took []float64
		for range pick(q.most > 1000, 3, 15) {
			start := time.Now()
			if _, err := ask(ctx, server.addr, req, 200, nil); err != nil {
				return err
			}
			took = append(took, millis(time.Since(start)))
		}
		var bound *target
		if !b.quick {
			bound = atMost(q.most)
		}
		b.report.add(recordsSection, column, q.name+", median", median(took), milli, bound)
	}
	return nil
}

// seedMixed writes one long chain. Each record is of one of 16 common agents, each with its own
// action, or occasionally of one of 10,000 others.
func (b *bench) seedMixed(ctx context.Context, path string, n int) (t tenant, err error) {
	s, err := store.Open(ctx, path, b.schema, store.Options{Domain: cred.Domain{}})
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	go s.Run(context.WithoutCancel(ctx), store.RunOptions{}) // until Close
	company, key, err := s.Companies.Create(ctx, "company", nil, time.Now())
	if err != nil {
		return t, err
	}
	err = each(ctx, n, func(i int) error {
		agent, action := fmt.Sprint("agent-", i%16), fmt.Sprint("tool.", i%16/2*2+1)
		if i%10 == 0 {
			agent = fmt.Sprint("rare-", i/10%10_000)
		}
		payload := fmt.Appendf(nil, `{"agentId":%q,"companyId":%q,"actionType":%q,"payload":%s}`, agent, company.ID, action,
			callerPayload)
		canonical, err := jcs.Append(nil, payload, 128)
		if err == nil {
			_, err = s.Append(ctx, chain.Draft{Chain: company.Chain, Payload: payload, Canonical: canonical})
		}
		return err
	})
	return tenant{company.ID, key.Key}, err
}
