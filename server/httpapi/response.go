package httpapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
)

// JSON responds with v in JSON.
func (c *Call) JSON(status int, v any) error {
	var b bytes.Buffer
	if err := EncodeJSON(&b, v); err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return c.Bytes(status, b.Bytes())
}

func EncodeJSON(b *bytes.Buffer, v any) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Bytes responds with encoded JSON. It ignores errors, which mean that the client is gone.
func (c *Call) Bytes(status int, body []byte) error {
	c.W.Header()["Content-Type"] = applicationJSON
	c.SendComplete(status, body)
	return nil
}

// Response remembers the status and the size of the body for the log, and whether the response was
// begun.
type Response struct {
	http.ResponseWriter
	call   *Call
	status int
	bytes  int64
	early  bool // it comes before the end of the request
}

func (w *Response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		if w.call.isEarly() {
			w.early = true
			w.Header().Set("Connection", "close")
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *Response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Unwrap supports http.ResponseController.
func (w *Response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack supports the WebSocket upgrade, which requires it here.
func (w *Response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.status = http.StatusSwitchingProtocols
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// Header values of many responses. They are shared: a response replaces one as a whole, or appends
// to it, which copies.
var (
	noSniff         = []string{"nosniff"}
	anyOrigin       = []string{"*"}
	noStore         = []string{"no-store"}
	applicationJSON = []string{"application/json"}
)
