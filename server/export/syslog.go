package export

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Syslog sends lines as RFC 5424 messages over TLS, with octet counting (RFC 5425). It has no other
// transport: with UDP and plain TCP nobody knows what was received.
//
// Syslog has no acknowledgement. So each batch has a connection of its own: the exporter ends its
// side, and the batch counts as received when the receiver then ends its side without an error. A
// receiver does that when it has read everything. Whether it has stored it, only its disk shows.
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
	conn := tls.Client(plain, s.tls)
	if err := conn.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS with %s: %w", s.address, err)
	}
	frames := make([]byte, 0, b.bytes+128*len(b.Lines))
	for _, l := range b.Lines {
		frames = s.appendFrame(frames, l)
	}
	if _, err = conn.Write(frames); err == nil {
		err = conn.CloseWrite()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.address, err)
	}
	// Some receivers end the connection without the alert of TLS.
	n, err := conn.Read(make([]byte, 1))
	if n > 0 { // it may end its side after that, having stored nothing
		return fmt.Errorf("%s answers, which no syslog receiver does", s.address)
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s did not take all: %w", s.address, err)
	}
	return nil
}

// appendFrame appends MSG-LEN SP SYSLOG-MSG (RFC 5425 §4.3).
func (s *Syslog) appendFrame(dst []byte, l Line) []byte {
	header := "<" + strconv.Itoa(priority) + ">1 " + l.At + " " + s.host + " attestd " + strconv.Itoa(os.Getpid()) + " " + l.Type + " - "
	dst = strconv.AppendInt(dst, int64(len(header)+len(l.Text)), 10)
	dst = append(append(dst, ' '), header...)
	return append(dst, l.Text...)
}
