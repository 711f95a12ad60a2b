package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"attestd/internal/testenv"
	"attestd/server/internal/pipes"
	"attestd/server/limit"
)

// h2conn is a client of HTTP/2 that does what it likes.
type h2conn struct {
	*http2.Framer
	net.Conn
	ended  chan struct{} // closed when the server has ended the connection
	resets atomic.Int64  // streams that it has ended
	most   atomic.Uint32 // streams that it allows
}

// startHTTP2 runs a lifecycle that speaks TLS over a network in memory, with that many seats.
func startHTTP2(t *testing.T, seats int64, handler http.HandlerFunc) *h2conn {
	t.Helper()
	ca := testenv.NewCA(t)
	pair, err := tls.X509KeyPair(ca.Server(t, func(c *certificate) { c.NotBefore, c.NotAfter = time.Unix(0, 0), time.Unix(1<<33, 0) }))
	if err != nil {
		t.Fatal(err)
	}
	network := pipes.New()
	connections := limit.Listen(network, limit.Size{Most: seats, Share: seats}, []netip.Prefix{}, slog.New(slog.DiscardHandler)).TLS()
	l := lifecycle{
		handler: boundStreams(handler, connections), begin: func(context.Context) {}, streams: func() {}, leave: func() {}, log: slog.New(slog.DiscardHandler),
		tls: &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}},
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.run(ctx, connections) }()
	raw, err := network.Dial(ctx, "", "")
	if err != nil {
		t.Fatal(err)
	}
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	c := &h2conn{Framer: http2.NewFramer(conn, conn), Conn: conn, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		for {
			f, err := c.ReadFrame()
			if err != nil {
				return
			}
			switch f := f.(type) {
			case *http2.SettingsFrame:
				if n, ok := f.Value(http2.SettingMaxConcurrentStreams); ok {
					c.most.Store(n)
				}
			case *http2.RSTStreamFrame:
				c.resets.Add(1)
			}
		}
	}()
	t.Cleanup(func() {
		_ = raw.Close()
		stop()
		<-ended
	})
	return c
}

type certificate = x509.Certificate

// ask sends the header of a request.
func (c *h2conn) ask(t *testing.T, stream uint32, method string, end bool) {
	t.Helper()
	var block buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", method}, {":scheme", "https"}, {":authority", "localhost"}, {":path", "/"}} {
		if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block, EndStream: end, EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
}

type buffer []byte

func (b *buffer) Write(p []byte) (int, error) { *b = append(*b, p...); return len(p), nil }

// A client that opens a stream and does not read its response, or does not send its body, loses the
// stream after the time that HTTP/1.1 gives it, and the handler ends.
func TestHTTP2SlowPeers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		method string
		after  time.Duration
	}{"reader": {"GET", streamWait}, "writer": {"POST", readTimeout}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var handled atomic.Int64
				c := startHTTP2(t, 10, func(w http.ResponseWriter, r *http.Request) {
					defer handled.Add(1)
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						return
					}
					for range 100 {
						if _, err := w.Write(make([]byte, 64<<10)); err != nil {
							return
						}
					}
				})
				// no window for responses
				if err := c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
					t.Fatal(err)
				}
				c.ask(t, 1, tt.method, tt.method == "GET")
				time.Sleep(tt.after - time.Second)
				synctest.Wait()
				if handled.Load() != 0 {
					t.Error("the handler has ended already")
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if handled.Load() != 1 {
					t.Error("the handler goes on")
				}
			})
		})
	}
}

// What a handler has written when it ends waits no longer for its reader, and a handler may take
// long between two writes.
func TestHTTP2LastPiece(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := startHTTP2(t, 10, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "a")
			time.Sleep(5 * time.Minute)
			_, _ = io.WriteString(w, "b")
		})
		if err := c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
			t.Fatal(err)
		}
		c.ask(t, 1, "GET", true)
		time.Sleep(5*time.Minute + streamWait - time.Second)
		synctest.Wait()
		if n := c.resets.Load(); n != 0 {
			t.Error("the stream was reset while the handler worked")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := c.resets.Load(); n != 1 {
			t.Error("the stream was not reset")
		}
	})
}

// Requests that share a connection have a seat each, as connections have; beyond them they are 503.
// A connection may have 100 at a time.
func TestHTTP2StreamsHaveSeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int64
		c := startHTTP2(t, 5, func(_ http.ResponseWriter, r *http.Request) {
			running.Add(1)
			<-r.Context().Done()
		})
		if err := c.WriteSettings(); err != nil {
			t.Fatal(err)
		}
		for i := range uint32(20) {
			c.ask(t, 2*i+1, "GET", true)
		}
		synctest.Wait()
		if running.Load() != 4 { // and the connection
			t.Errorf("%d requests run", running.Load())
		}
		if most := c.most.Load(); most != 100 {
			t.Errorf("a connection may have %d streams", most)
		}
	})
}

// A peer that asks for nothing but pings loses its connection.
func TestHTTP2IdlePeer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := startHTTP2(t, 10, func(http.ResponseWriter, *http.Request) {})
		if err := c.WriteSettings(); err != nil {
			t.Fatal(err)
		}
		for range idleTimeout/(10*time.Second) + 2 {
			_ = c.WritePing(false, [8]byte{1})
			time.Sleep(10 * time.Second)
		}
		synctest.Wait()
		select {
		case <-c.ended:
		default:
			t.Error("a connection without requests goes on")
		}
	})
}

// A client that does not begin its handshake, or stops within it, loses its connection after the
// time of a header.
func TestHandshakeTimeout(t *testing.T) {
	t.Parallel()
	ca := testenv.NewCA(t)
	pair, err := tls.X509KeyPair(ca.Server(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, sends := range map[string][]byte{"nothing": nil, "a part of a hello": {22, 3, 1, 2, 0, 1, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				network := pipes.New()
				l := lifecycle{
					handler: http.NotFoundHandler(), begin: func(context.Context) {}, streams: func() {}, leave: func() {}, log: slog.New(slog.DiscardHandler),
					tls: &tls.Config{Certificates: []tls.Certificate{pair}},
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- l.run(ctx, limit.Listen(network, limit.Size{Most: 10, Share: 10}, nil, l.log).TLS()) }()
				conn, err := network.Dial(ctx, "", "")
				if err != nil {
					t.Fatal(err)
				}
				if len(sends) > 0 {
					if _, err := conn.Write(sends); err != nil {
						t.Fatal(err)
					}
				}
				began := time.Now()
				_, _ = io.Copy(io.Discard, conn)
				if took := time.Since(began); took < readHeaderTimeout || took > readHeaderTimeout+5*time.Second {
					t.Errorf("the connection was closed after %v", took)
				}
				_ = conn.Close()
				stop()
				<-ended
			})
		})
	}
}
