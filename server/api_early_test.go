package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
)

// uploaded sends a whole request before it reads, as simple clients do, and returns the status. The
// body has no announced length if chunked.
func (c caller) uploaded(t *testing.T, call string, size int, chunked bool) (status int, err error) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
	must.OK(t, err)
	defer conn.Close()
	header, before, after := fmt.Sprintf("Content-Length: %d\r\n", size), "", ""
	if chunked {
		header, before, after = "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n", size), "\r\n0\r\n\r\n"
	}
	if c.credential != "" {
		header += "Authorization: Bearer " + c.credential + "\r\n"
	}
	_, err = io.WriteString(conn, call+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+header+"\r\n"+before)
	must.OK(t, err)
	if _, err := io.WriteString(conn, strings.Repeat(" ", size)+after); err != nil {
		return 0, fmt.Errorf("while it sends: %w", err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.Header.Get("X-Request-ID") == "" {
		err = fmt.Errorf("%d without X-Request-ID: %s", answer.StatusCode, text)
	}
	return answer.StatusCode, err
}

// A client that sends its whole request before it reads gets the response of every route that
// responds before the end of the request: no credential, a wrong credential, a role without
// permission, and a body that is too large. The connection is not reset while the client sends.
func TestEarlyResponsesReachClientsThatSend(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	s := start(t, func(c *server.Config) { c.MaxBody = 512 << 10 })
	acme := s.company(t, "acme")
	reader := acme.with(acme.do(t, "POST /v1/keys", `{"role":"reader"}`).status(201).str("key"))
	doc, err := openapi3.NewLoader().LoadFromFile("../web/openapi.yaml")
	must.OK(t, err)
	parameter := regexp.MustCompile(`\{\w+\}`)
	calls := map[string]bool{"POST /nowhere": false, "PUT /v1/health": false, "POST /v1//keys": false}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if method != http.MethodGet || op.OperationID == "getCompany" || op.OperationID == "getTile" || op.OperationID == "getCheckpoint" {
				calls[method+" "+parameter.ReplaceAllString(path, "1")] = op.OperationID == "attest" || op.OperationID == "exportTraces"
			}
		}
	}
	if len(calls) < 40 {
		t.Fatalf("only %d routes are tried", len(calls))
	}
	const size = 12 << 20 // more than the buffers of both ends have room for
	for call, chunkedToo := range calls {
		for who, by := range map[string]caller{"a stranger": s.anyone(), "a wrong credential": s.anyone().with("svc_" + strings.Repeat("q", 43)), "a reader": reader, "an admin": acme} {
			for _, chunked := range []bool{false, true} {
				if chunked && !chunkedToo {
					continue
				}
				if status, err := by.uploaded(t, call, size, chunked); err != nil {
					t.Errorf("%s by %s, chunked %v: %d %v", call, who, chunked, status, err)
				}
			}
		}
	}
	acme.do(t, "GET /v1/company", "").status(200)
}

// What the server reads after an early response is bounded: a client that goes on sending, and one
// that sends nothing more, lose their connection after the response.
func TestReadingAfterAnEarlyResponseIsBounded(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	if status, err := s.anyone().uploaded(t, "POST /v1/keys", 256<<20, false); err == nil {
		t.Errorf("a client has sent 256 MiB after the response %d", status)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	must.OK(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST /v1/keys HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{")
	must.OK(t, err)
	from := bufio.NewReader(conn)
	answer, err := http.ReadResponse(from, nil)
	must.OK(t, err)
	if answer.StatusCode != 401 || !answer.Close || answer.ContentLength < 1 {
		t.Errorf("%d, %d bytes, closes: %v", answer.StatusCode, answer.ContentLength, answer.Close)
	}
	if rest, err := io.ReadAll(from); err != nil || int64(len(rest)) != answer.ContentLength {
		t.Errorf("the connection ends with %d bytes and %v", len(rest), err)
	}
}
