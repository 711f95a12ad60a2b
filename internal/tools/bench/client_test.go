package main

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
)

// scripted is a connection on which the server has already sent everything.
type scripted struct {
	net.Conn
	io.Reader
	sent strings.Builder
}

func (s *scripted) Read(b []byte) (int, error)  { return s.Reader.Read(b) }
func (s *scripted) Write(b []byte) (int, error) { return s.sent.Write(b) }

func answering(text string) *client { return newClient(&scripted{Reader: strings.NewReader(text)}) }

// answeringSlowly returns a client that receives a byte at a time, so that reads end at every
// position.
func answeringSlowly(text string) *client {
	return newClient(&scripted{Reader: iotest.OneByteReader(strings.NewReader(text))})
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, answer string
		status       int
		body         string
	}{
		{"length", "HTTP/1.1 201 Created\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello", 201, "hello"},
		{"name in lower case, no space", "HTTP/1.1 200 OK\r\ncontent-length:2\r\n\r\n{}", 200, "{}"},
		{"empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, ""},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n", 200, "hello world"},
		{"chunk size in hex", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1A\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n", 200, "abcdefghijklmnopqrstuvwxyz"},
		{"chunk that holds line ends", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\r\n\r\n\r\n0\r\n\r\n", 200, "\r\n\r\n"},
		{"trailers", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: b\r\nC: d\r\n\r\n", 200, "x"},
		{"no body", "HTTP/1.1 204 No Content\r\n\r\n", 204, ""},
		{"larger than the buffer", "HTTP/1.1 200 OK\r\nContent-Length: 40000\r\n\r\n" + strings.Repeat("y", 40000), 200, strings.Repeat("y", 40000)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range []*client{answering(tt.answer + tt.answer), answeringSlowly(tt.answer + tt.answer)} {
				// the second round shows that the first consumed exactly its response
				for range 2 {
					status, body, err := c.do([]byte("GET / HTTP/1.1\r\n\r\n"))
					if err != nil || status != tt.status || string(body) != tt.body {
						t.Fatalf("answer %d %.60q, %v; want %d %.60q", status, body, err, tt.status, tt.body)
					}
				}
			}
		})
	}
}

func TestMalformedAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer string
		want   error
	}{
		"not HTTP":               {"SSH-2.0-OpenSSH_9.6\r\n\r\n", errAnswer},
		"no number":              {"HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n", errAnswer},
		"negative length":        {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", errAnswer},
		"neither length":         {"HTTP/1.1 200 OK\r\n\r\nhello", errAnswer},
		"chunk size":             {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", errAnswer},
		"chunk longer":           {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n0\r\n\r\n", errAnswer},
		"cut off in the header":  {"HTTP/1.1 200 OK\r\nContent-", io.ErrUnexpectedEOF},
		"cut off in the body":    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", io.ErrUnexpectedEOF},
		"cut off between chunks": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, _, err := answering(tt.answer).do(nil); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
}

func TestRequest(t *testing.T) {
	t.Parallel()
	got := string(request("POST", "/v1/attest", "svc_k", jsonType, `{"a":1}`))
	want := "POST /v1/attest HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer svc_k\r\n" +
		"Content-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\":1}"
	if got != want {
		t.Errorf("request\n%q, want\n%q", got, want)
	}
}
