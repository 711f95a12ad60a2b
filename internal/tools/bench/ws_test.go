package main

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// frame returns a server's frame: final and unmasked.
func frame(opcode byte, payload string) string {
	head := []byte{0x80 | opcode, byte(len(payload))}
	switch {
	case len(payload) > 0xffff:
		head = []byte{0x80 | opcode, 127, 0, 0, 0, 0, 0, byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload))}
	case len(payload) > 125:
		head = []byte{0x80 | opcode, 126, byte(len(payload) >> 8), byte(len(payload))}
	}
	return string(head) + payload
}

func TestMessages(t *testing.T) {
	t.Parallel()
	messages := []string{"a", "", strings.Repeat("b", 125), strings.Repeat("c", 126), strings.Repeat("d", 70_000), "e"}
	var wire string
	for _, m := range messages {
		wire += frame(opText, m)
	}
	for _, c := range []*client{answering(wire), answeringSlowly(wire)} {
		for i, want := range messages {
			if got, err := c.message(); err != nil || string(got) != want {
				t.Fatalf("message %d: %d bytes, %v; want %d bytes", i, len(got), err, len(want))
			}
		}
		if _, err := c.message(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("after the last message: %v", err)
		}
	}
}

func TestPingIsAnswered(t *testing.T) {
	t.Parallel()
	c := answering(frame(opPing, "abc") + frame(opText, "next"))
	if m, err := c.message(); err != nil || string(m) != "next" {
		t.Fatalf("message %q, %v", m, err)
	}
	if sent := c.conn.(*scripted).sent.String(); sent != "\x8a\x83\x00\x00\x00\x00abc" {
		t.Errorf("answered the ping with %q", sent)
	}
}

func TestStreamCloseErrorHasReason(t *testing.T) {
	t.Parallel()
	_, err := answering(frame(opClose, "\x03\xf5too slow")).message() // 1013
	if !errors.Is(err, errClosed) || !strings.Contains(err.Error(), "1013 too slow") {
		t.Errorf("error %v", err)
	}
}

func TestInvalidServerFramesAreRefused(t *testing.T) {
	t.Parallel()
	for name, wire := range map[string]string{
		"masked":    "\x81\x81\x00\x00\x00\x00a",
		"fragment":  "\x01\x01a",
		"extension": "\xc1\x01a",
		"too large": "\x81\x7f\x00\x00\x00\x01\x00\x00\x00\x00",
	} {
		if _, err := answering(wire).message(); !errors.Is(err, errAnswer) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
