package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// export measures the cost to appends of exporting each record: to a receiver that takes all, and
// to one that hangs. Three servers, one without an export, are loaded in turns. The receivers are
// in this process.
func (b *bench) export(ctx context.Context) (err error) {
	var received atomic.Int64 // bytes
	hangs := make(chan struct{})
	defer close(hangs)
	receiver := func(serve http.HandlerFunc) (string, func() error, error) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", nil, err
		}
		s := &http.Server{Handler: serve}
		go s.Serve(listener) // until it is closed
		return "http://" + listener.Addr().String(), s.Close, nil
	}
	takes, closeOne, err := receiver(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		received.Add(n)
	})
	if err != nil {
		return err
	}
	defer closeOne()
	hanging, closeOther, err := receiver(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hangs:
		case <-r.Context().Done():
		}
	})
	if err != nil {
		return err
	}
	defer closeOther()
	var loads [3]*side
	for i, flags := range [][]string{nil, {"--export-to", "https", "--export-address", takes}, {"--export-to", "https", "--export-address", hanging}} {
		server, t, err := b.serveTenant(ctx, []string{"unexported.db", "exported.db", "hanging.db"}[i], flags...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.stop()) }()
		req := attestRequest(t)
		loads[i] = &side{child: server, status: 201, request: func(int) []byte { return req }}
		if loads[i].clients, err = connect(ctx, server.addr, 64); err != nil {
			return err
		}
		defer hangUp(loads[i].clients)
	}
	rounds, each := pick(b.quick, 3, 15), pick(b.quick, 300*time.Millisecond, time.Second)
	var ratios [2][]float64
	var lines []float64
	for i := -1; i < rounds; i++ {
		var rate [3]float64
		for n := range loads {
			which := (i + n + len(loads)) % len(loads) // the order changes
			before := received.Load()
			r, err := loads[which].load(ctx, each, 0)
			if err != nil {
				return err
			}
			rate[which] = r.perSecond()
			if which != 1 {
				continue
			}
			if i >= 0 {
				lines = append(lines, float64(received.Load()-before)/r.elapsed.Seconds()/1e6)
			}
			// until it has caught up, so that it takes nothing from the next one
			for last := int64(-1); last != received.Load(); {
				last = received.Load()
				select {
				case <-time.After(1500 * time.Millisecond):
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		if i < 0 { // not counted
			continue
		}
		for n := range ratios {
			ratios[n] = append(ratios[n], rate[n+1]/rate[0])
		}
	}
	const section = "export, 64 appending clients"
	for n, column := range []string{"to a receiver", "to one that hangs"} {
		b.report.addRounds(section, column, "append rate ÷ without an export", ratios[n], atLeast(0.97))
	}
	b.report.add(section, "to a receiver", "MB/s beside the appends", median(lines), ratio, nil)
	return nil
}
