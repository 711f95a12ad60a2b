package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Opcodes of RFC 6455 §5.2.
const (
	opText  = 1
	opClose = 8
	opPing  = 9
)

// listen opens a WebSocket to the stream. It does not check the server's Sec-WebSocket-Accept: a
// wrong server would show in the first frame.
func listen(ctx context.Context, addr string) (*client, error) {
	c, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	c.conn.SetDeadline(time.Now().Add(patience))
	status, body, err := c.do([]byte("GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\n\r\n"))
	if err == nil && status != 101 {
		err = fmt.Errorf("GET /v1/ws: answer %d: %.200s", status, body)
	}
	if err != nil {
		c.conn.Close()
		return nil, err
	}
	c.conn.SetDeadline(time.Time{})
	return c, nil
}

var errClosed = errors.New("the server closed the stream")

// message returns the next text message, valid until the next read, and responds to pings.
func (c *client) message() ([]byte, error) {
	for {
		opcode, payload, err := c.frame()
		if err != nil {
			return nil, err
		}
		switch opcode {
		case opText:
			return payload, nil
		case opClose:
			return nil, fmt.Errorf("%w: %s", errClosed, closeReason(payload))
		case opPing:
			// A pong with the same payload. The mask that a client's frame must have may be zero in
			// a benchmark.
			pong := append([]byte{0x80 | 10, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload...)
			if _, err := c.conn.Write(pong); err != nil {
				return nil, err
			}
		}
	}
}

// frame reads one unmasked, unfragmented frame, as servers send them.
func (c *client) frame() (opcode byte, payload []byte, err error) {
	head, err := c.peek(2)
	if err != nil {
		return 0, nil, err
	}
	opcode = head[0] & 0x0f
	if head[0]&0xf0 != 0x80 || head[1]&0x80 != 0 {
		return 0, nil, fmt.Errorf("%w: frame is masked, extended or a fragment", errAnswer)
	}
	size, length := 2, int(head[1])
	switch length {
	case 126:
		size = 4
	case 127:
		size = 10
	}
	if head, err = c.peek(size); err != nil {
		return 0, nil, err
	}
	switch size {
	case 4:
		length = int(binary.BigEndian.Uint16(head[2:]))
	case 10:
		long := binary.BigEndian.Uint64(head[2:])
		if long > largestFrame {
			return 0, nil, fmt.Errorf("%w: frame of %d bytes", errAnswer, long)
		}
		length = int(long)
	}
	whole, err := c.peek(size + length)
	if err != nil {
		return 0, nil, err
	}
	c.r += size + length
	return opcode, whole[size:], nil
}

// peek returns the next n bytes without consuming them.
func (c *client) peek(n int) ([]byte, error) {
	for c.w-c.r < n {
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
	return c.in[c.r : c.r+n], nil
}

func closeReason(payload []byte) string {
	if len(payload) < 2 {
		return "no reason given"
	}
	return fmt.Sprintf("%d %s", binary.BigEndian.Uint16(payload), payload[2:])
}
