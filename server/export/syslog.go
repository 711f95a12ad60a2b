package export

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Syslog sends lines as RFC 5424 messages over TLS, with octet counting (RFC 5425). It has no other
// transport: with UDP and plain TCP the sender does not know what was received.
//
// Syslog has no acknowledgement. So each batch has a connection of its own: the exporter ends its
// side, and the batch counts as received when the receiver ends its side only then, without an
// error. A receiver does that when it has read everything. An end that comes earlier means that it
// has not, and so does a reset after it: the system resets a connection whose received data no
// process has read. Whether a receiver has stored the batch, only its disk shows.
type Syslog struct {
	address string
	tls     *tls.Config
	host    string
	dialer  net.Dialer
}

// NewSyslog returns the destination at host:port.
func NewSyslog(address string, config *tls.Config) (*Syslog, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return nil, errors.New("the address of a syslog receiver is host:port")
	}
	config = config.Clone()
	config.ServerName, config.MinVersion = host, tls.VersionTLS12
	name, _ := os.Hostname()
	return &Syslog{address: address, tls: config, host: headerName(name)}, nil
}

// headerName returns a name in the form of a header field: printable ASCII, "-" for none.
func headerName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, name)
	if name == "" {
		return "-"
	}
	return name[:min(len(name), 255)]
}

func (s *Syslog) String() string { return "syslog " + s.address }

// ID implements Destination.
func (s *Syslog) ID() string { return s.String() }

// Close implements Destination.
func (s *Syslog) Close() error { return nil }

// Prepare implements Destination.
func (s *Syslog) Prepare() (isNew bool, err error) { return false, nil }

// priority is that of the messages: facility "log audit" (13), severity "informational" (6).
const priority = 13*8 + 6

// Deliver implements Destination.
func (s *Syslog) Deliver(ctx context.Context, b *Batch) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	plain, err := s.dialer.DialContext(ctx, "tcp", s.address)
	if err != nil {
		return err
	}
	defer plain.Close()
	defer context.AfterFunc(ctx, func() { _ = plain.SetDeadline(time.Unix(1, 0)) })()
	conn, began := tls.Client(plain, s.tls), time.Now()
	if err := conn.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS with %s: %w", s.address, err)
	}
	roundTrip := min(time.Since(began), maxRoundTrip)
	frames := make([]byte, 0, b.bytes+128*len(b.Lines))
	for _, l := range b.Lines {
		frames = s.appendFrame(frames, l)
	}
	for part := range slices.Chunk(frames, partSize) {
		if err = b.MayLeave(ctx); err == nil {
			_, err = conn.Write(part)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = s.checkOpen(ctx, conn, roundTrip)
	}
	if err == nil {
		err = conn.CloseWrite()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.address, err)
	}
	if err := readToEnd(conn); err != nil {
		return fmt.Errorf("%s did not take all: %w", s.address, err)
	}
	return nil
}

// partSize is the part of a batch, in bytes, before which it is asked whether it may leave.
const partSize = 32 << 10

// maxRoundTrip bounds how long an end of the other side is waited for that comes too early.
const maxRoundTrip = time.Second

var (
	errEndsFirst = errors.New("the receiver ends its side before the exporter has ended its own: it has not read the lines to their end")
	errAnswers   = errors.New("the receiver answers, which no syslog receiver does")
)

// checkOpen requires that the other side has not ended. It waits for as long as the handshake took,
// which is at least a round trip: until then an end that the receiver sent before this side's may
// be in flight.
func (s *Syslog) checkOpen(ctx context.Context, conn *tls.Conn, roundTrip time.Duration) error {
	if err := conn.SetReadDeadline(time.Now().Add(roundTrip)); err != nil {
		return err
	}
	n, err := conn.Read(make([]byte, 1))
	switch {
	case n > 0: // it may end its side after that, having stored nothing
		return errAnswers
	case isEnd(err):
		return errEndsFirst
	case ctx.Err() != nil:
		return ctx.Err()
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return err
	}
	err = conn.SetReadDeadline(time.Time{})
	if ctx.Err() != nil { // its deadline may have been lifted just now
		err = ctx.Err()
	}
	return err
}

// readToEnd requires that the other side ends without an answer and without a reset, first its side
// of TLS and then the connection.
func readToEnd(conn *tls.Conn) error {
	n, err := conn.Read(make([]byte, 1))
	switch {
	case n > 0:
		return errAnswers
	case !isEnd(err):
		return err
	}
	plain, is := conn.NetConn().(*net.TCPConn)
	if !is {
		return errors.New("the connection is not of TCP")
	}
	// A receiver may wait for this end too. Where it is gone already, reading says how.
	_ = plain.CloseWrite()
	n, err = plain.Read(make([]byte, 1))
	switch {
	case n > 0:
		return errAnswers
	case err != io.EOF:
		return err
	}
	return nil
}

// isEnd reports the end of a side of TLS. Some receivers end the connection without the alert.
func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// appendFrame appends MSG-LEN SP SYSLOG-MSG (RFC 5425 §4.3).
func (s *Syslog) appendFrame(dst []byte, l Line) []byte {
	header := "<" + strconv.Itoa(priority) + ">1 " + l.At + " " + s.host + " attestd " + strconv.Itoa(os.Getpid()) + " " + l.Type + " - "
	dst = strconv.AppendInt(dst, int64(len(header)+len(l.Text)), 10)
	dst = append(append(dst, ' '), header...)
	return append(dst, l.Text...)
}
