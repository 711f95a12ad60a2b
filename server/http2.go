package server

import (
	"net/http"
	"time"

	"attestd/server/limit"
)

// http2Bounds are those of a connection that several requests share. The buffers are the least that
// net/http allows, or near it: they hold what clients have sent and no handler has read.
func http2Bounds() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          100,
		MaxReceiveBufferPerStream:     64 << 10,
		MaxReceiveBufferPerConnection: 128 << 10,
	}
}

// streamWait is how long a piece of a response waits for its reader, as limit.Listener has it for
// connections. In HTTP/2 a client holds up one response while it reads others, which no deadline of
// the connection notices.
const streamWait = 30 * time.Second

// boundStreams gives requests over HTTP/2 the bounds of those with a connection of their own: a
// seat among the connections while they run, and streamWait for each piece of the response.
func boundStreams(h http.Handler, connections *limit.Listener) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			h.ServeHTTP(w, r)
			return
		}
		release, err := connections.Reserve(r.RemoteAddr)
		if err != nil {
			w.Header().Set("Retry-After", "10")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		defer release()
		s := &streamWriter{ResponseWriter: w, control: http.NewResponseController(w)}
		h.ServeHTTP(s, r)
		if s.wrote { // net/http writes the rest after this
			_ = s.control.SetWriteDeadline(time.Now().Add(streamWait))
		}
	})
}

// streamWriter ends a stream whose client does not read.
type streamWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	wrote   bool
}

// streamPiece is as much as may wait at once, as of limit.Listener.
const streamPiece = 64 << 10

func (s *streamWriter) Write(p []byte) (n int, err error) {
	s.wrote = true
	for {
		piece := p[n:min(len(p), n+streamPiece)]
		var k int
		s.within(func() { k, err = s.ResponseWriter.Write(piece) })
		if n += k; err != nil || n == len(p) {
			return n, err
		}
	}
}

// FlushError is what http.ResponseController calls.
func (s *streamWriter) FlushError() (err error) {
	s.wrote = true
	s.within(func() { err = s.control.Flush() })
	return err
}

// within resets the stream if write takes longer than streamWait.
func (s *streamWriter) within(write func()) {
	late := time.AfterFunc(streamWait, func() { _ = s.control.SetWriteDeadline(time.Unix(1, 0)) })
	defer late.Stop()
	write()
}

// Unwrap supports http.ResponseController.
func (s *streamWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }
