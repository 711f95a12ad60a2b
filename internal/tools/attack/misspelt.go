package main

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"attestd/internal/harness"
)

// misspelt sends misspelled and ambiguous requests. They must be refused if ignoring the mistake
// would grant more rights, or skip a passport.
func misspelt(ctx context.Context, r *harness.Run) error {
	s, _, err := r.Lab.ServeNew(ctx, "--rate-limits", "off")
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }()
	c := &harness.Client{Addr: s.Addr}
	defer c.Close()
	key, err := c.Register("acme")
	if err == nil {
		err = c.RegisterBot(key)
	}
	if err != nil {
		return err
	}
	enrolling, err := enrolment(c, key, "bot")
	if err != nil {
		return err
	}
	_, routes, err := readDocument(c)
	if err != nil {
		return err
	}
	sent := 0
	refused := func(request harness.Request) {
		sent++
		request.Key = cmp.Or(request.Key, key)
		a, err := c.Do(request)
		if err != nil || a.Status != http.StatusBadRequest {
			r.Failf("%s %s %s %v: answered %d %.200s %v", request.Method, request.Path, request.Body, request.Header, a.Status,
				a.Body, err)
		}
	}
	for _, op := range routes {
		if op.addition {
			var credential string
			if op.role == "enrolling" {
				credential = enrolling
			}
			for _, query := range []string{"zzzzzz=1", "%zz", "a;b", "require=a&requires=b"} {
				refused(harness.Request{Method: op.method, Key: credential, Path: withQuery(op.fill(values{"index": "0"}), query)})
			}
		}
	}
	event := func(names string) string {
		return `{` + names + `,"tool_name":"Bash","tool_use_id":"t","tool_input":{}}`
	}
	for path, bodies := range map[string][]string{
		"/v1/keys": {`{"rol":"reader"}`, `{"Role":"reader"}`, `{"expires":"2030-01-01T00:00:00.000Z"}`,
			`{"expires_at":null}`},
		"/v1/oauth/clients":       {`{"roles":"reader"}`, `{"expiresat":"x"}`, `{"role":""}`, `{"jwksUri":""}`, `{"expiresAt":""}`},
		"/v1/keys?role=reader":    {``},
		"/v1/agents/bot/passport": {`{"scope":["tool:read"]}`, `{"Scopes":["tool:read"]}`, `{"TTL":1}`, `{"ttlSeconds":1}`},
		"/v1/attest":              {`{"agentId":"a","actionType":"b","payload":1,"Delegation":"x"}`},
		"/v1/token-exchange":      {`{"agentId":"bot","acting_on":"acme","scope":"a"}`},
		"/v1/attest/batch": {`{"records":[{"agentId":"a","actionType":"b","payload":1,"delegate":"x"}]}`,
			`{"records":[],"x":1}`},
		"/v1/agents/bot/disable": {`{"x":1}`},
		"/v1/hooks/claude-code?require=passport": {
			event(`"hook_event_name":"PreToolUse","hook_event_name":"PostToolUse"`), event(`"Hook_Event_Name":"PreToolUse"`),
			event(`"hook_event_name":"PreToolUse","tool_name":"Read"`),
		},
		"/v1/otlp/v1/traces?Content=keep":              {`{}`},
		"/v1/otlp/v1/traces?content=keep&content=hash": {`{}`},
		"/v1/otlp/v1/logs?content=kept":                {`{}`},
		"/v1/otlp/v1/logs?all=True":                    {`{}`},
		"/v1/otlp/v1/traces": {`{"resourceSpans":[],"resourceSpans":[]}`, `{"resourceSpans":[],"resource_spans":[]}`,
			`{"x":1,"x":2}`, `{"resourceSpans":{}}`},
		"/v1/hooks/claude-code?requires=passport":                 {event(`"hook_event_name":"PreToolUse"`)},
		"/v1/hooks/claude-code?Require=passport":                  {event(`"hook_event_name":"PreToolUse"`)},
		"/v1/hooks/claude-code?require=passport&require=passport": {event(`"hook_event_name":"PreToolUse"`)},
		"/v1/hooks/claude-code?agent=bot&require":                 {event(`"hook_event_name":"PreToolUse"`)},
		"/v1/hooks/claude-code?agent=&require=passport":           {event(`"hook_event_name":"PreToolUse"`)},
		"/v1/hooks/claude-code?redact=":                           {event(`"hook_event_name":"PreToolUse"`)},
		"/v1/otlp/v1/traces?agent=":                               {`{}`},
		"/v1/otlp/v1/logs?content":                                {`{}`},
		"/v1/agents/bot/enrolments":                               {`{"expiresIn":""}`},
	} {
		for _, body := range bodies {
			refused(harness.Request{Method: "POST", Path: path, Body: body})
		}
	}
	attest := harness.Request{Method: "POST", Path: "/v1/attest", Body: `{"agentId":"a","actionType":"b","payload":1}`}
	for _, header := range [][]string{
		{"Idempotency-Key: a", "Idempotency-Key: b"}, {"Authorization: Bearer x"}, {"Content-Type: application/json", "Content-Type: text/plain"},
	} {
		request := attest
		request.Header = header
		refused(request)
	}
	refused(harness.Request{Method: "POST", Path: "/v1/agents/bot/passport/rotate",
		Header: []string{"Service-Passport: a", "Attestd-Passport: b"}})
	if err := twoLengths(s.Addr); err != "" {
		r.Failf("%s", err)
	}
	var list struct{ Keys []struct{ Key string } }
	if err := c.Call(200, harness.Request{Method: "GET", Path: "/v1/keys", Key: key}, &list); err != nil {
		return err
	}
	if len(list.Keys) != 1 {
		r.Failf("misspelt requests have made %d keys", len(list.Keys)-1)
	}
	r.Count(sent+1, "requests")
	return s.Stop()
}

func withQuery(path, query string) string {
	if strings.Contains(path, "?") {
		return path + "&" + query
	}
	return path + "?" + query
}

// twoLengths sends a request with two lengths, and another one after it, which must not be
// answered.
func twoLengths(addr string) string {
	conn, err := net.DialTimeout("tcp", addr, guardWait)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(guardWait)) // an error shows below
	_, err = io.WriteString(conn, "POST /v1/companies HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"+
		"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if err != nil {
		return err.Error()
	}
	text, _ := io.ReadAll(bufio.NewReader(conn)) // to the end of the connection
	if n := strings.Count(string(text), "HTTP/1.1 "); n != 1 || !strings.Contains(string(text), "Connection: close") {
		return "a request with Content-Length and Transfer-Encoding leaves the connection open: " + string(text)
	}
	return ""
}
