package attack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"attestd/internal/harness"
)

// The parties' addresses, as reported by this process, which is the only proxy that the server
// trusts.
const (
	goodAddress = "X-Forwarded-For: 198.51.100.7"
	badAddress  = "X-Forwarded-For: 203.0.113.9"
)

// address returns the n-th address of the attacker.
func address(n int) string {
	return fmt.Sprintf("X-Forwarded-For: 203.0.%d.%d", n/250%250, 1+n%250)
}

const (
	guardWait = 5 * time.Second // maximum time of a response to the good client under attack
	mebibyte  = 1 << 20
)

// siege is a server under a denial-of-service attack, and a good client that checks whether it is
// healthy and still appends.
type siege struct {
	*run
	*harness.Service
	key string // the attacker's

	peak  *harness.Peak
	stop  chan struct{}
	done  sync.WaitGroup
	asked int
	worst time.Duration
}

// besiege starts a server with a company for each side, and the good client, which sends a request
// at intervals.
func besiege(ctx context.Context, r *run, every time.Duration, flags ...string) (*siege, error) {
	g := &siege{run: r, stop: make(chan struct{})}
	var err error
	g.Service, _, err = r.Lab.ServeNew(ctx, append([]string{"--trusted-proxies", "127.0.0.1/32"}, flags...)...)
	if err != nil {
		return nil, err
	}
	c := &harness.Client{Addr: g.Addr, Header: []string{goodAddress}}
	defer c.Close()
	key, err := c.Register("good")
	if err == nil {
		g.key, err = c.Register("bad")
	}
	if err != nil {
		return nil, errors.Join(err, g.Stop())
	}
	g.peak = harness.WatchMemory(g.PID())
	g.done.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			g.ask(harness.Request{Method: "GET", Path: "/v1/health"}, 200)
			g.ask(harness.Request{Method: "POST", Path: "/v1/attest", Key: key,
				Body: `{"agentId":"good","actionType":"goes-on","payload":1}`}, 201)
			select {
			case <-g.stop:
				return
			case <-ticker.C:
			}
		}
	})
	return g, nil
}

// ask sends one request of the good client on a new connection.
func (g *siege) ask(request harness.Request, status int) {
	c := &harness.Client{Addr: g.Addr, Wait: guardWait, Header: []string{goodAddress}}
	defer c.Close()
	start := time.Now()
	if err := c.Call(status, request, nil); err != nil {
		g.Errorf("under attack, the good client: %v", err)
	}
	g.asked++
	g.worst = max(g.worst, time.Since(start))
}

// lift ends the siege and reports its cost. most is the maximum of the server's memory in bytes.
func (g *siege) lift(most int64) error {
	close(g.stop)
	g.done.Wait()
	peak := g.peak.End()
	if err := g.Running(); err != nil {
		g.Errorf("%v", err)
		return nil
	}
	if peak > most {
		g.Errorf("the server took %d MiB of memory, more than %d", peak/mebibyte, most/mebibyte)
	}
	g.Count(int(peak/mebibyte), "MiB at most")
	g.Count(g.asked, "questions of a good client")
	g.Count(int(g.worst.Milliseconds()), "ms for the slowest of them")
	return g.Stop()
}

// many runs n jobs, 32 at a time, each worker with its own client, until one fails.
func many(ctx context.Context, addr string, n int, job func(c *harness.Client, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 32 {
		workers.Go(func() {
			c := &harness.Client{Addr: addr}
			defer c.Close()
			for ctx.Err() == nil {
				i := int(next.Add(1) - 1)
				if i >= n {
					return
				}
				if err := job(c, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// hold opens connections, sends each the result of first, and returns them open. The server may
// close them or stop reading.
func (g *siege) hold(ctx context.Context, n int, first func(i int) []byte) ([]net.Conn, error) {
	conns := make([]net.Conn, n)
	err := many(ctx, g.Addr, n, func(_ *harness.Client, i int) error {
		conn, err := net.DialTimeout("tcp", g.Addr, guardWait)
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		conns[i] = conn
		// writing to an open connection must not block
		_ = conn.SetWriteDeadline(time.Now().Add(guardWait))
		_, _ = conn.Write(first(i))
		return nil
	})
	if err != nil {
		hangUp(conns)
	}
	return conns, err
}

func hangUp(conns []net.Conn) {
	for _, conn := range conns {
		if conn != nil {
			conn.Close()
		}
	}
}

// passport issues a passport to the attacker's bot and returns its ID.
func (g *siege) passport(c *harness.Client) (jti string, err error) {
	var issued struct{ Passport string }
	if err := c.Call(201, harness.Request{Method: "POST", Path: "/v1/agents/bot/passport", Key: g.key},
		&issued); err != nil {
		return "", err
	}
	return jtiOf(issued.Passport)
}
