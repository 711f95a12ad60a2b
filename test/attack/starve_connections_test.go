package attack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"attestd/internal/harness"
	"attestd/internal/sleep"
)

const longest = 1 << 20 // maximum announced body

// promise returns the header of a request with a large body, alternately to a public route and with
// a credential.
func (g *siege) promise(i int) []byte {
	r := harness.Request{Method: "POST", Path: "/v1/companies", Header: []string{address(i)}}
	if i%2 == 0 {
		r.Path, r.Key = "/v1/attest", g.key
	}
	return bytes.Replace(r.Bytes(), []byte("Content-Length: 0"), fmt.Appendf(nil, "Content-Length: %d", longest), 1)
}

// emptyBodies announces bodies and sends none, which must cost next to nothing.
func emptyBodies(ctx context.Context, r *run) error {
	g, err := besiege(ctx, r, 200*time.Millisecond, "--rate-limits", "off")
	if err != nil {
		return err
	}
	const n = 1800
	conns, err := g.hold(ctx, n, g.promise)
	if err == nil {
		err = sleep.For(ctx, 3*time.Second)
	}
	hangUp(conns)
	r.Count(n, "connections")
	return errors.Join(err, g.lift(400*mebibyte))
}

// longBodies sends all of each body but its last byte. The total size of bodies in memory must be
// bounded.
func longBodies(ctx context.Context, r *run) error {
	g, err := besiege(ctx, r, 200*time.Millisecond, "--rate-limits", "off")
	if err != nil {
		return err
	}
	n := 1200
	if short() {
		n = 700
	}
	body := bytes.Repeat([]byte("x"), longest-1)
	copy(body, `{"companyId":"c","agentId":"a","actionType":"b","payload":"`)
	conns, err := g.hold(ctx, n, func(i int) []byte { return append(g.promise(i), body...) })
	if err == nil {
		err = sleep.For(ctx, 2*time.Second)
	}
	hangUp(conns)
	r.Count(n, "connections")
	return errors.Join(err, g.lift(512*mebibyte))
}

// unreadAnswers requests large responses, 40 times on each connection, and reads nothing. The
// service must continue, and eventually close the connections.
func unreadAnswers(ctx context.Context, r *run) error {
	g, err := besiege(ctx, r, 200*time.Millisecond, "--rate-limits", "off")
	if err != nil {
		return err
	}
	note := strings.Repeat("n", 4000)
	err = many(ctx, g.Addr, 1000, func(c *harness.Client, i int) error {
		return c.Call(201, harness.Request{Method: "POST", Path: "/v1/agents/register", Key: g.key,
			Body: fmt.Sprintf(`{"agentId":"agent-%d","metadata":{"note":%q}}`, i, note)}, nil)
	})
	if err != nil {
		return errors.Join(err, g.lift(512*mebibyte))
	}
	before := harness.Descriptors(g.PID())
	const n = 300
	paths := []string{"/v1/openapi.json", "/v1/agents?limit=1000", "/v1/chain", "/app.js"}
	conns, err := g.hold(ctx, n, func(i int) []byte {
		one := harness.Request{Method: "GET", Path: paths[i%len(paths)], Key: g.key, Header: []string{address(i)}}
		return bytes.Repeat(one.Bytes(), 40)
	})
	if err == nil {
		err = sleep.For(ctx, 3*time.Second)
	}
	if err == nil && !short() && before > 0 {
		err = g.letGo(ctx, before+20)
	}
	hangUp(conns)
	r.Count(n, "connections")
	return errors.Join(err, g.lift(400*mebibyte))
}

// letGo waits until the server has closed the connections of clients that do not read.
func (g *siege) letGo(ctx context.Context, few int) error {
	const most = 150
	for range most {
		if harness.Descriptors(g.PID()) <= few {
			return nil
		}
		if err := sleep.For(ctx, time.Second); err != nil {
			return err
		}
	}
	g.Errorf("after %d s the server still holds %d descriptors, for answers that nobody reads", most,
		harness.Descriptors(g.PID()))
	return nil
}

// streamPlaces takes every place on the stream that one address can get, and then every place that
// one company can get from many addresses. Later clients from elsewhere, or of another company,
// must still get a place.
func streamPlaces(ctx context.Context, r *run) error {
	g, err := besiege(ctx, r, 200*time.Millisecond, "--rate-limits", "off")
	if err != nil {
		return err
	}
	c := &harness.Client{Addr: g.Addr, Header: []string{goodAddress}}
	defer c.Close()
	late, err := c.Register("late")
	if err != nil {
		return errors.Join(err, g.lift(800*mebibyte))
	}
	const n = 4100
	for _, phase := range []struct {
		name, key string
		from      func(i int) string
	}{
		{"one address without a credential", "", func(int) string { return badAddress }},
		{"one company from many addresses", g.key, address},
	} {
		conns, err := g.hold(ctx, n, func(i int) []byte {
			return harness.Request{Method: "GET", Path: "/v1/ws", Key: phase.key,
				Header: []string{phase.from(i), "Connection: Upgrade",
					"Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw=="}}.Bytes()
		})
		if err != nil {
			return errors.Join(err, g.lift(800*mebibyte))
		}
		r.Count(n-refusedOf(conns), "places for "+phase.name)
		for _, key := range []string{"", late} {
			name, value, _ := strings.Cut(goodAddress, ": ")
			conn, status, err := follow(g.Addr, key, name, value)
			if err != nil || status != http.StatusSwitchingProtocols {
				g.Errorf("after %s, a newcomer (with a credential: %t) is answered %d", phase.name, key != "", status)
				continue
			}
			conn.Close()
		}
		hangUp(conns)
		// until the server has noticed that they are gone
		if err := sleep.For(ctx, time.Second); err != nil {
			return errors.Join(err, g.lift(800*mebibyte))
		}
	}
	return g.lift(800 * mebibyte)
}

// refusedOf reads the first line of each response and counts the refusals.
func refusedOf(conns []net.Conn) (n int) {
	line := make([]byte, len("HTTP/1.1 101"))
	for _, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(guardWait)) // an error shows in the read
		if _, err := conn.Read(line); err != nil || string(line) != "HTTP/1.1 101" {
			n++
		}
	}
	return n
}
