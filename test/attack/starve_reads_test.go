package attack

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"attestd/internal/harness"
	"attestd/internal/sleep"
)

// lists lets six clients read the longest list slowly and concurrently. The server must not hold it
// in memory.
func lists(ctx context.Context, r *run) error {
	g, err := besiege(ctx, r, 200*time.Millisecond, "--rate-limits", "off")
	if err != nil {
		return err
	}
	n := 4000
	if short() {
		n = 2000
	}
	reason := strings.Repeat("r", 15<<10)
	c := &harness.Client{Addr: g.Addr}
	defer c.Close()
	err = c.RegisterBot(g.key)
	if err == nil {
		err = many(ctx, g.Addr, n, func(c *harness.Client, i int) error {
			jti, err := g.passport(c)
			if err != nil {
				return err
			}
			return c.Call(200, harness.Request{Method: "POST", Path: "/v1/passports/" + jti + "/revoke", Key: g.key,
				Body: `{"reason":"` + reason + `"}`}, nil)
		})
	}
	if err != nil {
		return errors.Join(err, g.lift(mebibyte<<10))
	}
	g.peak.End() // only reading counts
	before := harness.Resident(g.PID())
	g.peak = harness.WatchMemory(g.PID())
	var readers sync.WaitGroup
	for range 6 {
		readers.Go(func() {
			switch count, err := readSlowly(g.Addr, g.key); {
			case err != nil:
				g.Errorf("a reader of the list: %v", err)
			case count != n:
				g.Errorf("the list has %d entries, not %d", count, n)
			}
		})
	}
	readers.Wait()
	r.Count(n, "revocations")
	return g.lift(before + 64*mebibyte)
}

// readSlowly reads the list of revoked passports, with a long pause soon after its beginning, and
// returns their number.
func readSlowly(addr, key string) (int, error) {
	conn, err := net.DialTimeout("tcp", addr, guardWait)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(harness.Patience)) // an error shows below
	if _, err := conn.Write(harness.Request{Method: "GET", Path: "/v1/passports/revoked", Key: key}.Bytes()); err != nil {
		return 0, err
	}
	in := bufio.NewReaderSize(conn, 4096)
	if _, err := in.Peek(1024); err != nil {
		return 0, err
	}
	time.Sleep(2 * time.Second)
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	var list struct{ Revoked []struct{ JTI string } }
	if err := json.Unmarshal(text, &list); err != nil {
		return 0, fmt.Errorf("after %d bytes: %w", len(text), err)
	}
	return len(list.Revoked), nil
}

// verifies lets 100 clients verify one company's long chain concurrently. Another company with an
// empty chain must not wait for them.
func verifies(ctx context.Context, r *run) error {
	g, err := besiege(ctx, r, 200*time.Millisecond, "--rate-limits", "off")
	if err != nil {
		return err
	}
	n := 160_000
	if short() {
		n = 15_000
	}
	late, err := (&harness.Client{Addr: g.Addr}).Register("late")
	if err == nil {
		err = many(ctx, g.Addr, n, func(c *harness.Client, i int) error {
			return c.Call(201, harness.Request{Method: "POST", Path: "/v1/attest", Key: g.key,
				Body: `{"agentId":"a","actionType":"b","payload":1}`}, nil)
		})
	}
	if err != nil {
		return errors.Join(err, g.lift(mebibyte<<10))
	}
	var crowd sync.WaitGroup
	var done, valid, busy atomic.Int64
	for range 100 {
		crowd.Go(func() {
			defer done.Add(1)
			c := &harness.Client{Addr: g.Addr, Wait: 5 * time.Minute}
			defer c.Close()
			a, err := c.Do(harness.Request{Method: "GET", Path: "/v1/verify", Key: g.key})
			switch {
			case err != nil:
				g.Errorf("one of the crowd: %v", err)
			case a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") != "":
				busy.Add(1)
			case a.Status != 200 || !strings.Contains(string(a.Body), `"valid":true`):
				g.Errorf("one of the crowd is answered %d: %.200s", a.Status, a.Body)
			default:
				valid.Add(1)
			}
		})
	}
	worst, asked, err := g.readDuring(ctx, late, func() bool { return done.Load() < 100 })
	crowd.Wait()
	if worst > time.Second {
		g.Errorf("the verification of an empty chain took %v beside the crowd", worst.Round(time.Millisecond))
	}
	r.Count(n, "records")
	r.Count(int(valid.Load()), "verified")
	r.Count(int(busy.Load()), "sent away")
	r.Count(asked, "verifications of an empty chain beside them")
	r.Count(int(worst.Milliseconds()), "ms for the slowest")
	return errors.Join(err, g.lift(400*mebibyte))
}

// readDuring verifies an empty chain repeatedly while the other clients are busy.
func (g *siege) readDuring(ctx context.Context, key string, busy func() bool) (worst time.Duration, asked int, err error) {
	c := &harness.Client{Addr: g.Addr, Wait: 5 * time.Minute}
	defer c.Close()
	for busy() || asked == 0 {
		start := time.Now()
		if err := c.Call(200, harness.Request{Method: "GET", Path: "/v1/verify", Key: key}, nil); err != nil {
			g.Errorf("the verification of an empty chain: %v", err)
		}
		worst = max(worst, time.Since(start))
		asked++
		if err := sleep.For(ctx, 20*time.Millisecond); err != nil {
			return worst, asked, err
		}
	}
	return worst, asked, nil
}
