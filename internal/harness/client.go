package harness

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Request is one HTTP request. It is sent unchanged and unchecked.
type Request struct {
	Method, Path string
	Key          string   // bearer credential; "" sends no Authorization
	Header       []string // more lines, "Name: value"
	Body         string   // JSON, unless Header says otherwise
	Host         string   // "" sends that of Base
}

// Bytes returns the request as sent.
func (r Request) Bytes() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, r.Path, cmp.Or(r.Host, "127.0.0.1"))
	if r.Key != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", r.Key)
	}
	typed := false
	for _, line := range r.Header {
		b.WriteString(line + "\r\n")
		typed = typed || strings.HasPrefix(line, "Content-Type:")
	}
	if r.Body != "" && !typed {
		b.WriteString("Content-Type: application/json\r\n")
	}
	if r.Method != "GET" && r.Method != "HEAD" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(r.Body))
	}
	b.WriteString("\r\n" + r.Body)
	return b.Bytes()
}

// Answer is a complete response.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Client is one keep-alive connection, opened on demand. It MUST be used by one goroutine at a
// time.
type Client struct {
	Addr   string
	Wait   time.Duration // time limit for one response; 0 is Patience
	Header []string      // of each request, before the request's own

	conn net.Conn
	in   *bufio.Reader
}

// Close closes the connection. The client can be used again.
func (c *Client) Close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// Do sends one request, without retries, and reads the response.
func (c *Client) Do(r Request) (Answer, error) {
	answer, err := c.do(r)
	if err != nil {
		c.Close()
		return Answer{}, fmt.Errorf("%s %s: %w", r.Method, r.Path, err)
	}
	return answer, nil
}

func (c *Client) do(r Request) (a Answer, err error) {
	wait := c.Wait
	if wait == 0 {
		wait = Patience
	}
	if c.conn == nil {
		if c.conn, err = net.DialTimeout("tcp", c.Addr, wait); err != nil {
			c.conn = nil
			return a, err
		}
		c.in = bufio.NewReaderSize(c.conn, 16<<10)
	}
	if err := c.conn.SetDeadline(time.Now().Add(wait)); err != nil {
		return a, err
	}
	if len(c.Header) > 0 {
		r.Header = append(append([]string(nil), c.Header...), r.Header...)
	}
	if _, err := c.conn.Write(r.Bytes()); err != nil {
		return a, err
	}
	response, err := http.ReadResponse(c.in, &http.Request{Method: r.Method})
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	a.Status, a.Header = response.StatusCode, response.Header
	if a.Body, err = io.ReadAll(response.Body); err != nil {
		return a, err
	}
	if response.Close {
		c.Close()
	}
	return a, nil
}

// StatusError is a response with an unexpected status.
type StatusError struct {
	Request Request
	Want    int
	Answer  Answer
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s %s answers %d, not %d: %.300s", e.Request.Method, e.Request.Path, e.Answer.Status, e.Want, e.Answer.Body)
}

// Call sends a request and decodes the response into dest, unless it is nil. Another status than
// the expected one is a *StatusError.
func (c *Client) Call(status int, r Request, dest any) error {
	a, err := c.Do(r)
	if err != nil {
		return err
	}
	if a.Status != status {
		return &StatusError{r, status, a}
	}
	if dest == nil {
		return nil
	}
	return Read(a, status, dest)
}

// Read decodes the JSON of a response with the expected status.
func Read(a Answer, status int, dest any) error {
	if a.Status != status {
		return fmt.Errorf("status %d, not %d: %.300s", a.Status, status, a.Body)
	}
	return json.Unmarshal(a.Body, dest)
}

// RegisterBot registers the agent "bot" of a company.
func (c *Client) RegisterBot(key string) error {
	return c.Call(201, Request{Method: "POST", Path: "/v1/agents/register", Key: key, Body: `{"agentId":"bot"}`}, nil)
}

// Register registers a company and returns its first key.
func (c *Client) Register(company string) (key string, err error) {
	var made struct{ APIKey string }
	err = c.Call(201, Request{Method: "POST", Path: "/v1/companies", Body: fmt.Sprintf(`{"companyId":%q}`, company)}, &made)
	return made.APIKey, err
}
