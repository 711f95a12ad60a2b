package attack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"attestd/internal/harness"
)

// inflight is --max-inflight of the attacked server, the default. Decoding a body may cost more
// than its bytes; with many at once, memory must stay below twice this.
const inflight = 256 * mebibyte

// manyMembers sends many bodies that are expensive to decode, concurrently: without credentials,
// then with those of several companies. Each must get a response, and memory must stay bounded.
func manyMembers(ctx context.Context, r *run) error {
	g, err := besiege(ctx, r, 200*time.Millisecond, "--rate-limits", "off", "--max-inflight", fmt.Sprint(inflight))
	if err != nil {
		return err
	}
	idle := harness.Resident(g.PID())
	keys := []string{g.key}
	c := &harness.Client{Addr: g.Addr}
	defer c.Close()
	for i := 1; i < 8 && err == nil; i++ {
		var key string
		key, err = c.Register(fmt.Sprintf("company-%d", i))
		keys = append(keys, key)
	}
	times := 96
	if short() {
		times = 32
	}
	for _, kind := range costlyBodies() {
		if err != nil {
			break
		}
		before := g.peak.Now()
		err = g.sendMany(ctx, kind, keys, max(2, times/kind.fewer))
		if after := g.peak.Now(); after > before {
			r.Count(int((after-idle)/mebibyte), "MiB above idle after "+kind.name)
		}
	}
	return errors.Join(err, g.lift(idle+2*inflight))
}

// costly is a body that is sent many times concurrently.
type costly struct {
	name, path, media, body string
	public                  bool
	fewer                   int   // divides the number of requests, because it takes long
	due                     int   // status that some responses must have
	allowed                 []int // other statuses that they may have
}

// costlyBodies returns bodies of the maximum size that need much more memory when decoded.
func costlyBodies() (list []costly) {
	const size = 4*mebibyte - 1024
	many := members(size)
	for _, path := range []string{"/v1/companies", "/v1/oauth/token", "/v1/recover-key"} {
		due, small := http.StatusRequestEntityTooLarge, http.StatusBadRequest
		if path == "/v1/recover-key" { // it is off behind a proxy
			due, small = http.StatusForbidden, http.StatusForbidden
		}
		list = append(list,
			costly{"members of strangers at " + path, path, "application/json", many, true, 1, due, []int{413}},
			costly{"64 KiB of members of strangers at " + path, path, "application/json", members(64 << 10), true, 1, small,
				[]int{400}})
	}
	attest := func(payload string) string { return `{"agentId":"a","actionType":"b","payload":` + payload + `}` }
	record := `{"agentId":"a","actionType":"b","payload":` + members(4000) + `}`
	call := 0
	calls := repeated(size, func() string {
		call++
		return fmt.Sprintf(`{"tool_name":"B","tool_use_id":"%x","tool_input":{}}`, call)
	})
	nested := strings.Repeat(`{"a":`, 100) + members(size/2) + strings.Repeat(`}`, 100)
	full := []int{503}
	return append(list,
		costly{"members beside a payload", "/v1/attest", "application/json", many, false, 1, 400, full},
		costly{"members of a payload", "/v1/attest", "application/json", attest(many), false, 1, 400, full},
		costly{"members deep in a payload", "/v1/attest", "application/json", attest(nested), false, 1, 400, full},
		costly{"20,000 members of a payload", "/v1/attest", "application/json", attest(members(20_000 * 11)), false, 1, 201,
			full},
		costly{"numbers of a payload", "/v1/attest", "application/json", attest(numbers(499_000, "1")), false, 2, 201, full},
		costly{"numbers that grow", "/v1/attest", "application/json", attest(numbers(499_000, "1e20")), false, 2, 201, full},
		costly{"long texts", "/v1/attest", "application/json", attest(`"` + strings.Repeat("x", size-100) + `"`), false, 1,
			201, full},
		costly{"batches of 1,000 records", "/v1/attest/batch", "application/json", `{"records":[` +
			strings.TrimSuffix(strings.Repeat(record+",", 1000), ",") + `]}`, false, 8, 201, full},
		costly{"parameters of a form", "/v1/token/exchange", "application/x-www-form-urlencoded",
			strings.Repeat("a&b&", size/4), false, 1, 400, full},
		costly{"calls of a hook's batch", "/v1/hooks/claude-code", "application/json",
			`{"hook_event_name":"PostToolBatch","session_id":"s","tool_calls":[` + calls + `]}`, false, 4, 400, full})
}

// members returns an object of short members with about size bytes.
func members(size int) string {
	n := 0
	return "{" + repeated(size, func() string { n++; return fmt.Sprintf(`"%x":1`, n) }) + "}"
}

// numbers returns an array of n numbers.
func numbers(n int, number string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(number+",", n), ",") + "]"
}

// repeated joins parts with commas, up to a size.
func repeated(size int, part func() string) string {
	var b strings.Builder
	b.Grow(size)
	for {
		next := part()
		if b.Len()+len(next)+1 > size {
			return b.String()
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(next)
	}
}

// sendMany sends a body many times, 32 at once, and checks the statuses.
func (g *siege) sendMany(ctx context.Context, kind costly, keys []string, times int) error {
	var met atomic.Int64
	err := many(ctx, g.Addr, times, func(c *harness.Client, i int) error {
		c.Wait = time.Minute
		request := harness.Request{Method: "POST", Path: kind.path, Body: kind.body,
			Header: []string{"Content-Type: " + kind.media}}
		if kind.public {
			request.Header = append(request.Header, badAddress)
		} else {
			request.Key = keys[i%len(keys)]
			request.Header = append(request.Header, address(i))
		}
		a, err := c.Do(request)
		switch {
		case err != nil:
			// the server may close the connection of a body that it has no room for, or does not
			// read
			return ctx.Err()
		case a.Status == kind.due:
			met.Add(1)
			return nil
		case slices.Contains(kind.allowed, a.Status):
			return nil
		}
		g.Errorf("%s: answered %d %.200s", kind.name, a.Status, a.Body)
		return nil
	})
	// the client may lose this response while it still writes
	if err == nil && met.Load() == 0 && kind.due != http.StatusRequestEntityTooLarge {
		g.Errorf("%s: none of %d was answered %d", kind.name, times, kind.due)
	}
	g.Count(times, kind.name)
	return err
}
