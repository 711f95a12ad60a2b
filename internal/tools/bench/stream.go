package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// The stream is measured by its cost to appends. Three loads alternate, each with the same appends
// over HTTP:
//
//	none    no client listens
//	stream  n clients listen to attestd
//	bare    no client listens to attestd, and for each record n clients receive a message of the same size from a
//	        process that only writes (see caster)
//
// In the last two, an append begins only while at most streamWindow records are being delivered. So
// every client receives every record, none is disconnected as too slow, and the rate is that of
// records appended and delivered. stream ÷ none is the cost of listeners; stream ÷ bare is their
// cost beyond the writes themselves and the clients' reads, which no server can avoid. The trigger
// of the bare server is one byte on a pipe for each record, which favors attestd by about a
// microsecond a record.
const (
	streamAppenders = 16
	streamWindow    = 32
)

const streamSection = "stream, 16 appending clients"

// streamKinds are the three loads, in the order of a round.
const (
	noListener = iota
	toStream
	toBare
	streamKinds
)

func (b *bench) stream(ctx context.Context) (err error) {
	server, err := b.serve(ctx, filepath.Join(b.dir, "stream.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	rounds, last := pick(b.quick, 2, 5), 0
	for _, listeners := range []int{1, 100, 1000} {
		b.say("stream to %d", listeners)
		each := pick(b.quick, 200*time.Millisecond, time.Second)
		if listeners == 1000 {
			each *= 2 // few records a second
		}
		var rates [streamKinds][]float64
		var relative, beyond []float64
		for range rounds {
			var rate [streamKinds]float64
			for kind := range streamKinds {
				last++
				// Each load has a new company with a short chain, because a message contains the
				// verdict on the whole chain, and attestd verifies that before the first message.
				t, err := register(ctx, server.addr, fmt.Sprintf("company-%d", last))
				if err != nil {
					return err
				}
				if rate[kind], err = b.streamLoad(ctx, server, t, kind, listeners, each); err != nil {
					return fmt.Errorf("%d clients: %w", listeners, err)
				}
				rates[kind] = append(rates[kind], rate[kind])
			}
			relative = append(relative, rate[toStream]/rate[noListener])
			beyond = append(beyond, rate[toStream]/rate[toBare])
		}
		column := fmt.Sprintf("to %d", listeners)
		b.report.add(streamSection, column, "durable and delivered records/s", median(rates[toStream]), perSecond, nil)
		b.report.add(streamSection, column, "  messages/s", median(rates[toStream])*float64(listeners), perSecond, nil)
		b.report.add(streamSection, column, "  ÷ append rate with no stream", median(relative), ratio, nil)
		b.report.add(streamSection, column, "  ÷ the same with bare writes only", median(beyond), ratio,
			only(listeners == 1000, atLeast(0.85)))
	}
	return nil
}

// streamLoad returns the rate of records that were appended, and delivered to all clients.
func (b *bench) streamLoad(
	ctx context.Context, server *child, t tenant, kind, listeners int, d time.Duration,
) (rate float64, err error) {
	req := attestRequest(t)
	clients, err := connect(ctx, server.addr, streamAppenders)
	if err != nil {
		return 0, err
	}
	defer hangUp(clients)
	load := &side{child: server, status: 201, request: func(int) []byte { return req }, clients: clients}
	if kind == noListener {
		r, err := load.load(ctx, d, 0)
		return r.perSecond(), err
	}
	from, afterAppend := server, func() error { return nil }
	if kind == toBare {
		size, err := b.messageSize(ctx, server, t)
		if err != nil {
			return 0, err
		}
		bare, err := b.startBare(ctx, 0, size)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, bare.stop()) }()
		from, afterAppend = bare, func() error {
			_, err := bare.stdin.Write([]byte{1})
			return err
		}
	}
	a, err := gather(ctx, from.addr, listeners, kind == toStream)
	if err != nil {
		return 0, err
	}
	defer a.dismiss()
	if kind == toBare {
		if err := joined(ctx, from, listeners); err != nil {
			return 0, err
		}
	}
	return a.run(ctx, load, afterAppend, d)
}

// messageSize returns the size of a stream message.
func (b *bench) messageSize(ctx context.Context, server *child, t tenant) (int, error) {
	c, err := listen(ctx, server.addr)
	if err != nil {
		return 0, err
	}
	defer c.conn.Close()
	if _, err := ask(ctx, server.addr, attestRequest(t), 201, nil); err != nil {
		return 0, err
	}
	c.conn.SetDeadline(time.Now().Add(patience))
	m, err := c.message()
	return len(m), err
}

// joined waits until the bare server has all its clients, because it responds to a handshake a
// moment before. attestd does not.
func joined(ctx context.Context, bare *child, n int) error {
	for {
		var count int
		if _, err := ask(ctx, bare.addr, request("GET", "/clients", "", "", ""), 200, &count); err != nil || count == n {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}
