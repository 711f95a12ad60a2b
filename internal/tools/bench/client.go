package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// client is one keep-alive connection with a minimal HTTP/1.1 client. The generator shares the
// machine with what it measures, so it must be light: a request is one write of prepared bytes, a
// response is usually one read, and nothing is allocated.
type client struct {
	conn net.Conn
	in   []byte // input buffer; in[r:w] is not consumed yet
	r, w int
	body []byte
}

const (
	bufferBytes  = 16 << 10
	largestFrame = 8 << 20 // of a WebSocket
)

func dial(ctx context.Context, addr string) (*client, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return newClient(c), nil
}

func newClient(c net.Conn) *client { return &client{conn: c, in: make([]byte, bufferBytes)} }

// request returns an encoded request. credential may be empty.
func request(method, path, credential, contentType, body string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n", method, path)
	if credential != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", credential)
	}
	if contentType != "" {
		fmt.Fprintf(&b, "Content-Type: %s\r\n", contentType)
	}
	if method != "GET" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	return append(append(b.Bytes(), "\r\n"...), body...)
}

// do sends a request and returns the status and the body of the response. The body is valid until
// the next call.
func (c *client) do(request []byte) (status int, body []byte, err error) {
	c.body = c.body[:0]
	status, err = c.stream(request, func(piece []byte) { c.body = append(c.body, piece...) })
	return status, c.body, err
}

// stream is do for large bodies, which it passes to sink piece by piece.
func (c *client) stream(request []byte, sink func([]byte)) (status int, err error) {
	if _, err := c.conn.Write(request); err != nil {
		return 0, err
	}
	return c.readAnswer(sink)
}

var errAnswer = errors.New("malformed answer")

// readAnswer reads one response with Content-Length or chunked encoding (RFC 9112 §6 and §7.1).
func (c *client) readAnswer(sink func([]byte)) (status int, err error) {
	line, err := c.line()
	if err != nil {
		return 0, err
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, fmt.Errorf("%w: status line %q", errAnswer, line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, fmt.Errorf("%w: status line %q", errAnswer, line)
	}
	length, chunked := int64(-1), false
	for {
		if line, err = c.line(); err != nil {
			return 0, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case len(name) == len("Content-Length") && bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64); err != nil || length < 0 {
				return 0, fmt.Errorf("%w: Content-Length %q", errAnswer, value)
			}
		case len(name) == len("Transfer-Encoding") && bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = bytes.EqualFold(bytes.TrimSpace(value), []byte("chunked"))
		}
	}
	switch {
	case status == 101 || status == 204 || status == 304:
		return status, nil
	case chunked:
		return status, c.chunks(sink)
	case length >= 0:
		return status, c.pass(length, sink)
	}
	return 0, fmt.Errorf("%w: neither Content-Length nor chunked", errAnswer)
}

func (c *client) chunks(sink func([]byte)) error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		digits, _, _ := bytes.Cut(line, []byte(";"))
		size, err := strconv.ParseInt(string(bytes.TrimSpace(digits)), 16, 64)
		if err != nil || size < 0 {
			return fmt.Errorf("%w: chunk size %q", errAnswer, line)
		}
		if size > 0 {
			if err := c.pass(size, sink); err != nil {
				return err
			}
		}
		// An empty line follows a chunk; trailers may precede it after the last one.
		for {
			if line, err = c.line(); err != nil {
				return err
			}
			if len(line) == 0 {
				break
			}
			if size > 0 {
				return fmt.Errorf("%w: chunk is longer than its size", errAnswer)
			}
		}
		if size == 0 {
			return nil
		}
	}
}

// pass passes n bytes to sink, in the pieces in which they arrive.
func (c *client) pass(n int64, sink func([]byte)) error {
	for n > 0 {
		if c.r == c.w {
			if err := c.fill(); err != nil {
				return err
			}
		}
		piece := c.in[c.r:min(int64(c.w), int64(c.r)+n)]
		sink(piece)
		c.r += len(piece)
		n -= int64(len(piece))
	}
	return nil
}

// line returns the next line without its CRLF, valid until the next read.
func (c *client) line() ([]byte, error) {
	for looked := 0; ; {
		if end := bytes.IndexByte(c.in[c.r+looked:c.w], '\n'); end >= 0 {
			line := c.in[c.r : c.r+looked+end]
			c.r += looked + end + 1
			return bytes.TrimSuffix(line, []byte("\r")), nil
		}
		looked = c.w - c.r
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads more bytes after those that are not consumed yet.
func (c *client) fill() error {
	if c.r > 0 {
		c.w = copy(c.in, c.in[c.r:c.w])
		c.r = 0
	}
	if c.w == len(c.in) {
		if len(c.in) >= largestFrame {
			return fmt.Errorf("%w: a line or frame has no end", errAnswer)
		}
		c.in = append(c.in, make([]byte, len(c.in))...)
	}
	n, err := c.conn.Read(c.in[c.w:])
	c.w += n
	if n > 0 {
		return nil
	}
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
