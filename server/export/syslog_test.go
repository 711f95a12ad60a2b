package export_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/server/export"
)

// certificate returns a pair for 127.0.0.1, and who trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	return s.TLS.Certificates[0], pool
}

// collector is a syslog receiver.
type collector struct {
	net.Listener
	mu       sync.Mutex
	messages []string
	conns    int
	// what becomes of a connection; nil reads it to its end and closes it
	treat func(n int, conn *tls.Conn) (done bool)
}

func newCollector(t *testing.T, pair tls.Certificate) *collector {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	c := &collector{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 0; ; n++ {
			plain, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer plain.Close()
				conn := tls.Server(plain, &tls.Config{Certificates: []tls.Certificate{pair}})
				if conn.Handshake() != nil || c.treat != nil && c.treat(n, conn) {
					return
				}
				c.read(conn)
				conn.Close()
			}()
		}
	}()
	return c
}

// read reads frames of RFC 5425.
func (c *collector) read(conn io.Reader) {
	in := bufio.NewReader(conn)
	c.mu.Lock()
	c.conns++
	c.mu.Unlock()
	for {
		size, err := in.ReadString(' ')
		if err != nil {
			return
		}
		n, err := strconv.Atoi(strings.TrimSuffix(size, " "))
		text := make([]byte, n)
		if _, e := io.ReadFull(in, text); err != nil || e != nil {
			return
		}
		c.mu.Lock()
		c.messages = append(c.messages, string(text))
		c.mu.Unlock()
	}
}

func (c *collector) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.messages, "\n") + "\n"
}

var header = regexp.MustCompile(`(?m)^<110>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \S+ attestd \d+ (record|opening|checkpoint|keys) - \{`)

// Lines are RFC 5424 messages over TLS with octet counting. What a receiver has not read to its end
// is sent again.
func TestExportToSyslog(t *testing.T) {
	t.Parallel()
	pair, pool := certificate(t)
	c := newCollector(t, pair)
	c.treat = func(n int, conn *tls.Conn) bool {
		switch n {
		case 0: // reads a part, and is gone
			_, _ = io.CopyN(io.Discard, conn, 100)
			_ = conn.NetConn().(*net.TCPConn).SetLinger(0)
			return true
		case 1: // hangs up at once
			_ = conn.NetConn().(*net.TCPConn).SetLinger(0)
			return true
		}
		return false
	}
	m, at := newMemory("acme"), newPositions()
	m.add("acme", 0, 300)
	m.add("acme", 1, 3)
	failures := 0
	for {
		d, err := export.NewSyslog(c.Addr().String(), &tls.Config{RootCAs: pool})
		must.OK(t, err)
		m.told = map[export.Log]int{}
		err = export.New(export.Config{Source: m, Cursors: at, Destination: d, CheckpointAtEnd: true, Log: quiet()}).Run(t.Context())
		if err == nil {
			break
		}
		if failures++; failures > 2 {
			t.Fatal(err)
		}
	}
	if failures != 2 {
		t.Errorf("%d deliveries failed, want 2", failures)
	}
	text := c.text()
	isComplete(t, checked(t, "acme", 0, text), 300, 3)
	if n := len(header.FindAllString(text, -1)); n != strings.Count(text, "\n") {
		t.Errorf("%d of %d messages have the header", n, strings.Count(text, "\n"))
	}
}

// The receiver's certificate must be trusted and of its name, and a receiver that never ends its
// side acknowledges nothing.
func TestSyslogReceiverIsVerified(t *testing.T) {
	t.Parallel()
	pair, pool := certificate(t)
	c := newCollector(t, pair)
	release := make(chan struct{})
	defer close(release)
	c.treat = func(int, *tls.Conn) bool { <-release; return true }
	b := &export.Batch{Lines: []export.Line{{Text: []byte("{}"), Type: "record", At: "2026-11-21T09:00:00.000Z"}}}
	d, err := export.NewSyslog(c.Addr().String(), &tls.Config{})
	must.OK(t, err)
	var unknown x509.UnknownAuthorityError
	if err := d.Deliver(t.Context(), b); !errors.As(err, &unknown) {
		t.Error(err)
	}
	_, port, _ := net.SplitHostPort(c.Addr().String())
	d, err = export.NewSyslog("localhost:"+port, &tls.Config{RootCAs: pool})
	must.OK(t, err)
	if err := d.Deliver(t.Context(), b); err == nil {
		t.Error("a certificate of another name is accepted")
	}
	d, err = export.NewSyslog(c.Addr().String(), &tls.Config{RootCAs: pool})
	must.OK(t, err)
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := d.Deliver(short, b); err == nil {
		t.Error("a receiver that hangs acknowledges")
	}
	for _, address := range []string{"", "host", ":6514", "tls://host:6514"} {
		if _, err := export.NewSyslog(address, &tls.Config{}); err == nil {
			t.Errorf("%q is accepted", address)
		}
	}
}

// A peer that answers is no syslog receiver, however short the answer: an HTTPS port ends the
// connection with an answer, and has stored nothing.
func TestSyslogReceiverThatAnswersAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	pair, pool := certificate(t)
	c := newCollector(t, pair)
	answers := []string{"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n400 Bad Request", "\n", strings.Repeat("x", 2<<10)}
	c.treat = func(n int, conn *tls.Conn) bool {
		c.read(conn)
		_, _ = io.WriteString(conn, answers[n])
		_ = conn.Close()
		return true
	}
	d, err := export.NewSyslog(c.Addr().String(), &tls.Config{RootCAs: pool})
	must.OK(t, err)
	b := &export.Batch{Lines: []export.Line{{Text: []byte("{}"), Type: "record", At: "2026-11-21T09:00:00.000Z"}}}
	for _, answer := range answers {
		if err := d.Deliver(t.Context(), b); err == nil {
			t.Errorf("the answer %.30q counts as an acknowledgement", answer)
		}
	}
}

// A receiver that ends its side before the exporter has ended its own has not read to the end, by
// whatever it ends it; nor has one that resets the connection after it.
func TestSyslogReceiverThatEndsFirstAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	pair, pool := certificate(t)
	b := &export.Batch{}
	for range 2000 {
		b.Lines = append(b.Lines, export.Line{Text: []byte(`{"a":"` + strings.Repeat("x", 50) + `"}`), Type: "record", At: "2026-11-21T09:00:00.000Z"})
	}
	for does, treat := range map[string]func(conn *tls.Conn){
		"its side of TLS": func(conn *tls.Conn) { _ = conn.CloseWrite() },
		"its side of TCP": func(conn *tls.Conn) { _ = conn.NetConn().(*net.TCPConn).CloseWrite() },
		"the connection":  func(conn *tls.Conn) { _ = conn.Close() },
		"its side of TLS after a part": func(conn *tls.Conn) {
			_, _ = io.CopyN(io.Discard, conn, 1000)
			_ = conn.CloseWrite()
		},
		// it has the end of the exporter and decrypts nothing: the rest goes with the connection
		"its side of TLS last, without reading": func(conn *tls.Conn) {
			head := make([]byte, 5) // of a TLS record: type, version, length (RFC 5246 §6.2.1)
			for head[0] != 21 {
				if _, err := io.ReadFull(conn.NetConn(), head); err != nil {
					t.Error(err)
					return
				}
				if head[0] != 21 {
					_, _ = io.CopyN(io.Discard, conn.NetConn(), int64(head[3])<<8|int64(head[4]))
				}
			}
			_ = conn.CloseWrite()
			_ = conn.NetConn().Close()
		},
	} {
		t.Run(does, func(t *testing.T) {
			t.Parallel()
			c := newCollector(t, pair)
			release := make(chan struct{})
			defer close(release)
			c.treat = func(_ int, conn *tls.Conn) bool {
				treat(conn)
				<-release
				return true
			}
			d, err := export.NewSyslog(c.Addr().String(), &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS12})
			must.OK(t, err)
			if err := d.Deliver(t.Context(), b); err == nil {
				t.Errorf("%d lines count as received", len(b.Lines))
			}
		})
	}
}
