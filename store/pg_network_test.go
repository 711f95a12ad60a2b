package store_test

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"

	"attestd/internal/must"
)

// network is a proxy between one of our servers and PostgreSQL that fails on demand.
type network struct {
	t     testing.TB
	proxy *toxiproxy.Proxy
}

// These are the directions of the data.
const (
	toServer   = "upstream"
	fromServer = "downstream"
)

func newNetwork(t testing.TB, server string) *network {
	t.Helper()
	n := &network{t, toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), t.Name(), "127.0.0.1:0", server)}
	must.OK(t, n.proxy.Start())
	t.Cleanup(n.proxy.Stop)
	return n
}

// through returns a database's URL that leads through a new network.
func through(t testing.TB, database string) (*network, string) {
	t.Helper()
	u := got(url.Parse(database))(t)
	n := newNetwork(t, u.Host)
	u.Host = n.proxy.Listen
	return n, u.String()
}

// add makes the network fail from now on in one direction, in one of the ways that toxiproxy
// documents.
func (n *network) add(direction, kind string, attributes any) toxics.Toxic {
	n.t.Helper()
	text := got(json.Marshal(map[string]any{"type": kind, "stream": direction, "attributes": attributes}))(n.t)
	return got(n.proxy.Toxics.AddToxicJson(strings.NewReader(string(text))))(n.t).Toxic
}

// heal removes all failures; connections that were cut stay cut.
func (n *network) heal() { n.proxy.Toxics.ResetToxics(context.Background()) }

// cut passes After[0] bytes of the first connection with data, After[1] of the second and so on;
// then it closes the connection or only stops passing data. If After has no number for a
// connection, or a negative one, everything passes.
type cut struct {
	After  []int64 `json:"after"`
	Silent bool    `json:"silent"`

	connections atomic.Int64    // the connections that carried data
	passed      [8]atomic.Int64 // the bytes of each
}

func init() { toxics.Register("cut", new(cut)) }

// cut applies to one direction. The other direction is affected only if the connection is closed.
func (n *network) cut(direction string, after ...int64) *cut {
	n.t.Helper()
	return n.add(direction, "cut", map[string]any{"after": after}).(*cut)
}

func (n *network) silence(direction string, after ...int64) *cut {
	n.t.Helper()
	return n.add(direction, "cut", map[string]any{"after": after, "silent": true}).(*cut)
}

// position is the state of a cut in one connection.
type position struct{ connection, passed int64 }

// NewState implements toxics.StatefulToxic.
func (*cut) NewState() any { return &position{connection: -1} }

// Pipe implements toxics.Toxic.
func (c *cut) Pipe(stub *toxics.ToxicStub) {
	p := stub.State.(*position)
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return
			}
			if p.connection < 0 {
				p.connection = c.connections.Add(1) - 1
			}
			left := int64(-1)
			if p.connection < int64(len(c.After)) {
				left = c.After[p.connection]
			}
			if left >= 0 {
				chunk.Data = chunk.Data[:min(int64(len(chunk.Data)), left-p.passed)]
			}
			if p.passed += int64(len(chunk.Data)); p.connection < int64(len(c.passed)) {
				c.passed[p.connection].Store(p.passed)
			}
			if len(chunk.Data) > 0 {
				stub.Output <- chunk
			}
			if left == p.passed && !c.Silent {
				stub.Close()
				for range stub.Input { // until the sender has noticed
				}
				return
			}
		}
	}
}
