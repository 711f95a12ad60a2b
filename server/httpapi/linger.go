package httpapi

import (
	"io"
	"net/http"
	"strconv"
	"time"
)

// The most that is read of a request after its response, and for how long.
const (
	lingerBytes = 16 << 20
	lingerTime  = 2 * time.Second
)

// readsItself is how much net/http reads, before it sends a response, of a body that its handler
// has not read. The connection can be used for other requests then.
const readsItself = 256 << 10

// sent is the body of a request, and whether it was read to its end.
type sent struct {
	io.ReadCloser
	ended bool
}

func (s *sent) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.ended = s.ended || err == io.EOF
	return n, err
}

// isEarly reports whether a response that begins now comes before the end of its request, so that
// the connection must end with it. For a known caller the server lets net/http read a small body
// first. Over HTTP/2, net/http ends the stream instead, and the connection is for others too.
func (c *Call) isEarly() bool {
	unread := c.ContentLength != 0 && !c.sent.ended
	return unread && c.ProtoMajor < 2 && (c.closes || c.presumed.Company == nil || c.ContentLength < 0 || c.ContentLength > readsItself)
}

// linger sends an early response at once, and then reads what its client still sends, within
// bounds. Otherwise the connection would be reset while the client sends, which many clients report
// in place of the response.
func (c *Call) linger() {
	if !c.W.early {
		return
	}
	control := http.NewResponseController(c.W)
	if control.Flush() != nil || control.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return // the client is gone
	}
	_, _ = io.CopyN(io.Discard, c.Body, lingerBytes) // an error ends it, too
}

// SendComplete sends a response that is completely known. An early response has its length in the
// header, so that the client knows its end before the connection ends.
func (c *Call) SendComplete(status int, body []byte) {
	if c.isEarly() {
		c.W.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	c.W.WriteHeader(status)
	_, _ = c.W.Write(body)
}
