package limit

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"attestd/server/internal/pipes"
)

// served runs a test in a bubble, with an HTTP server behind a Listener on pipes, where nothing is
// written before it is read.
func served(t *testing.T, handler http.HandlerFunc, test func(t *testing.T, l *Listener, dial func() net.Conn)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := pipes.New()
		l := Listen(network, Size{}, nil, slog.New(slog.DiscardHandler))
		srv := &http.Server{Handler: handler}
		go func() { _ = srv.Serve(l) }()
		test(t, l, func() net.Conn {
			conn, err := network.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			return conn
		})
		_ = srv.Close()
	})
}

// A peer that pipelines requests and reads no answer holds its connection for the time of one
// write, and not for ever.
func TestUnreadAnswersEndTheConnection(t *testing.T) {
	begun := 0
	answer := func(w http.ResponseWriter, _ *http.Request) {
		begun++
		_, _ = w.Write(make([]byte, 1000)) // is flushed by net/http, after the handler has returned
	}
	served(t, answer, func(t *testing.T, l *Listener, dial func() net.Conn) {
		conn := dial()
		go func() {
			for range 40 {
				if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: attestd\r\n\r\n"); err != nil {
					return
				}
			}
		}()
		time.Sleep(writeWait - 1)
		synctest.Wait()
		l.pool.wantUse(t, 1)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		l.pool.wantUse(t, 0)
		if begun == 0 {
			t.Error("no answer was begun")
		}
	})
}

// A peer that reads slowly, but reads, gets a large answer completely, although it is one write and
// lasts many minutes.
func TestSlowReaderGetsAll(t *testing.T) {
	const size = 1 << 20
	answer := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		_, _ = w.Write(make([]byte, size))
	}
	served(t, answer, func(t *testing.T, _ *Listener, dial func() net.Conn) {
		conn := dial()
		go func() { _, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: attestd\r\n\r\n") }()
		began := time.Now()
		res, err := http.ReadResponse(bufio.NewReaderSize(slowReader{conn}, pieceSize), nil)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, res.Body)
		if err != nil || n != size || time.Since(began) < 2*writeWait {
			t.Errorf("%d bytes after %v: %v", n, time.Since(began), err)
		}
	})
}

type slowReader struct{ r io.Reader }

func (s slowReader) Read(p []byte) (int, error) {
	time.Sleep(writeWait / 2)
	return s.r.Read(p)
}

// A user that sets its own deadline, as the stream does, has that one; once that is cleared, each
// write has its own again.
func TestCustomDeadlineReplacesDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, set := range map[string]func(*conn, time.Time) error{"SetWriteDeadline": (*conn).SetWriteDeadline, "SetDeadline": (*conn).SetDeadline} {
			ours, theirs := net.Pipe()
			c := &conn{Conn: ours, release: func() {}}
			took := func() time.Duration {
				began := time.Now()
				if _, err := c.Write([]byte("x")); !os.IsTimeout(err) {
					t.Errorf("%s: a write that nobody reads ended with %v", name, err)
				}
				return time.Since(began)
			}
			if err := set(c, time.Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			if d := took(); d != time.Second {
				t.Errorf("%s: cut after %v, want its own deadline", name, d)
			}
			_ = set(c, time.Time{})
			for range 2 {
				if d := took(); d != writeWait {
					t.Errorf("%s: cut after %v, want %v", name, d, writeWait)
				}
			}
			_ = theirs.Close()
			_ = c.Close()
		}
	})
}

// A piece that is written soon after another may have the deadline of that one. net/http resets its
// own deadline after each response, and resets none of the Listener's.
func TestWritesShareDeadlineForASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		c := &conn{Conn: ours, release: func() {}}
		written := func() {
			t.Helper()
			go func() { _, _ = theirs.Read(make([]byte, 1)) }()
			if _, err := c.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if err := c.SetWriteDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, step := range []struct{ pause, least time.Duration }{
			{0, writeWait}, {waitSlack - 1, writeWait - waitSlack + 1}, {waitSlack, writeWait}, {time.Hour, writeWait},
		} {
			written()
			time.Sleep(step.pause)
			began := time.Now()
			if _, err := c.Write([]byte("x")); !os.IsTimeout(err) || time.Since(began) != step.least {
				t.Errorf("%v after another write, one that nobody reads ended after %v with %v, want %v", step.pause, time.Since(began), err, step.least)
			}
		}
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		_ = c.SetDeadline(time.Time{}) // which a hijacker does
		time.AfterFunc(time.Hour, func() { _ = theirs.Close() })
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("a read without a deadline ended with %v", err)
		}
		_ = c.Close()
	})
}

// callers is a listener on which connections come from wherever a test says.
type callers struct {
	*pipes.Network
	next chan net.Conn
}

func (c callers) Accept() (net.Conn, error) {
	conn, ok := <-c.next
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

type connFrom struct {
	net.Conn
	peer netip.AddrPort
}

func (c connFrom) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.peer) }

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		c := callers{pipes.New(), make(chan net.Conn)}
		l := Listen(c, Size{Most: 8, Share: 2, Reserved: 2}, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, slog.New(slog.NewTextHandler(&logged, nil)))
		accepted := make(chan net.Conn, 100)
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				accepted <- conn
			}
		}()
		defer close(c.next)

		// call connects from an address and returns the server's end, or nil and what was answered
		// when it was refused.
		call := func(ip string) (net.Conn, string) {
			t.Helper()
			ours, theirs := net.Pipe()
			t.Cleanup(func() { _ = ours.Close() })
			answer := make(chan string, 1)
			go func() {
				text, _ := io.ReadAll(ours)
				answer <- string(text)
			}()
			c.next <- connFrom{theirs, netip.AddrPortFrom(netip.MustParseAddr(ip), 1000)}
			synctest.Wait()
			select {
			case conn := <-accepted:
				return conn, ""
			default:
				return nil, <-answer
			}
		}
		admitted := func(ip string) net.Conn {
			t.Helper()
			conn, _ := call(ip)
			if conn == nil {
				t.Errorf("%s was refused", ip)
			}
			return conn
		}
		refused := func(ip string) {
			t.Helper()
			conn, answer := call(ip)
			if conn != nil {
				t.Errorf("%s was admitted", ip)
			} else if res, err := http.ReadResponse(bufio.NewReader(strings.NewReader(answer)), nil); err != nil || res.StatusCode != 503 {
				t.Errorf("%s was refused with %q: %v", ip, answer, err)
			}
		}

		first := admitted("192.0.2.1")
		admitted("192.0.2.1")
		refused("192.0.2.1")
		refused("::ffff:192.0.2.1") // the same address
		admitted("192.0.2.2")       // another is not held up
		_ = first.Close()
		_ = first.Close() // gives back once
		admitted("192.0.2.1")
		refused("192.0.2.1")
		admitted("2001:db8::1")
		admitted("2001:db8::2")
		refused("2001:db8::3") // a site has 2⁶⁴ addresses and one share
		admitted("2001:db8:0:1::1")
		refused("192.0.2.3") // what is left is reserved
		admitted("127.0.0.1")
		last := admitted("10.1.2.3")
		refused("127.0.0.1") // there is an end for everybody
		_ = last.Close()
		admitted("127.0.0.1")

		if n := strings.Count(logged.String(), "\n"); n != 1 || !strings.Contains(logged.String(), "level=WARN") {
			t.Errorf("the log has %d lines, want one warning:\n%s", n, &logged)
		}
		time.Sleep(warnEvery)
		refused("192.0.2.1")
		refused("192.0.2.1")
		if n := strings.Count(logged.String(), "\n"); n != 2 || !strings.Contains(logged.String(), "refused=6") {
			t.Errorf("a minute later the log has %d lines, want one more, for what was refused since:\n%s", n, &logged)
		}
	})
}

func TestConnectionsFitOpenFiles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ most, files, want int64 }{
		{10_000, 0, 10_000}, {10_000, 1 << 20, 10_000}, {10_000, 1024, 960}, {10_000, 100, 50}, {10, 1024, 10},
	} {
		if got := fit(tt.most, tt.files); got != tt.want {
			t.Errorf("%d connections with %d files: %d, want %d", tt.most, tt.files, got, tt.want)
		}
	}
	if n := FitFiles(1 << 40); n < 1 || n > 1<<40 {
		t.Errorf("here %d connections fit", n)
	}
}
