package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// webhookCount is the number of endpoints that receive every record.
const webhookCount = 10

// webhooks measures the cost to appends of sending each record to ten endpoints, with the webhooks
// enabled and disabled in turns. The endpoints are in this process, and share the machine with the
// server and the generator, unlike those of a company.
//
// The rate of messages is reported for the time under load, when appends have priority, and for the
// time after it, while the webhooks catch up.
func (b *bench) webhooks(ctx context.Context) (err error) {
	server, t, err := b.serveTenant(ctx, "webhooks.db", "--webhooks-allow-private")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	var received atomic.Int64
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	endpoint := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		received.Add(1)
	})}
	go endpoint.Serve(listener) // until it is closed
	defer endpoint.Close()
	var ids []string
	for range webhookCount {
		var made struct{ WebhookID string }
		body := fmt.Sprintf(`{"url":"http://%s/"}`, listener.Addr())
		if _, err := ask(ctx, server.addr, request("POST", "/v1/webhooks", t.key, jsonType, body), 201, &made); err != nil {
			return err
		}
		ids = append(ids, made.WebhookID)
	}
	turn := func(how string) error {
		for _, id := range ids {
			if _, err := ask(ctx, server.addr, request("POST", "/v1/webhooks/"+id+"/"+how, t.key, "", ""), 200,
				nil); err != nil {
				return err
			}
		}
		return nil
	}
	req := attestRequest(t)
	load := &side{child: server, status: 201, request: func(int) []byte { return req }}
	if load.clients, err = connect(ctx, server.addr, 64); err != nil {
		return err
	}
	defer hangUp(load.clients)
	rounds, each := pick(b.quick, 3, 12), pick(b.quick, 300*time.Millisecond, time.Second)
	if _, err := load.load(ctx, each, 0); err != nil { // not counted
		return err
	}
	var ratios, cpu, rates, busy, idle []float64
	for i := range rounds {
		// without and with webhooks: records a second, and the processor time of a record
		var rate, used [2]float64
		for n := range 2 {
			with := (i + n) % 2 // the order alternates
			if err := turn([]string{"disable", "enable"}[with]); err != nil {
				return err
			}
			before := received.Load()
			r, err := load.load(ctx, each, 0)
			if err != nil {
				return err
			}
			rate[with], used[with] = r.perSecond(), float64(r.cpu+r.load)/float64(r.all)
			if with == 0 {
				continue
			}
			busy = append(busy, float64(received.Load()-before)/r.elapsed.Seconds())
			select { // until appends no longer have priority
			case <-time.After(1200 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
			before, since := received.Load(), time.Now()
			select {
			case <-time.After(each / 3):
			case <-ctx.Done():
				return ctx.Err()
			}
			idle = append(idle, float64(received.Load()-before)/time.Since(since).Seconds())
			if err := turn("disable"); err != nil {
				return err
			}
		}
		ratios, rates, cpu = append(ratios, rate[1]/rate[0]), append(rates, rate[1]), append(cpu, used[1]/used[0])
	}
	column := fmt.Sprintf("%d endpoints", webhookCount)
	const section = "webhooks, 64 appending clients"
	b.report.add(section, column, "durable records/s", median(rates), perSecond, nil)
	b.report.addRounds(section, column, "  ÷ rate with webhooks disabled", ratios, atLeast(0.95))
	b.report.add(section, column, "  processor time of a record, server and endpoints ÷ the same", median(cpu), ratio, nil)
	b.report.add(section, column, "messages/s beside them", median(busy), perSecond, nil)
	b.report.add(section, column, "messages/s afterwards", median(idle), perSecond, nil)
	return nil
}
