package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
)

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"
)

// tenant is a company with an API key.
type tenant struct{ id, key string }

// callerPayload is the payload of every request: a plausible action of about 200 bytes.
const callerPayload = `{"tool":"payments.transfer","target":"invoice/2041-88173","amount":1249.5,"currency":"EUR","approved":true,` +
	`"inputs":{"account":"DE02120300000000202051","purpose":"Invoice 88173"},"tags":["finance","q4"]}`

const (
	callerAgent  = "invoice-bot"
	callerAction = "tool.call"
)

// attestRequest returns a request that appends a record to a tenant's chain.
func attestRequest(t tenant) []byte {
	return request("POST", "/v1/attest", t.key, jsonType,
		`{"agentId":"`+callerAgent+`","actionType":"`+callerAction+`","payload":`+callerPayload+`}`)
}

// ask sends one request on a new connection and decodes the response into v, which may be nil.
func ask(ctx context.Context, addr string, req []byte, status int, v any) (size int, err error) {
	c, err := dial(ctx, addr)
	if err != nil {
		return 0, err
	}
	defer c.conn.Close()
	return c.ask(ctx, req, status, v)
}

// ask sends one request whose response may take long. Only ctx ends it early.
func (c *client) ask(ctx context.Context, req []byte, status int, v any) (size int, err error) {
	defer limit(ctx, []*client{c}, time.Time{})()
	got, body, err := c.do(req)
	line, _, _ := strings.Cut(string(req), "\r")
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case err != nil:
		return 0, fmt.Errorf("%s: %w", line, err)
	case got != status:
		return 0, fmt.Errorf("%s: answer %d instead of %d: %.200s", line, got, status, body)
	case v == nil:
		return len(body), nil
	}
	return len(body), json.Unmarshal(body, v)
}

// register registers a company over HTTP.
func register(ctx context.Context, addr, id string) (tenant, error) {
	var answer struct{ APIKey string }
	_, err := ask(ctx, addr, request("POST", "/v1/companies", "", jsonType, `{"companyId":"`+id+`"}`), 201, &answer)
	return tenant{id, answer.APIKey}, err
}

// verify returns an error if a tenant's chain is not valid.
func (c *client) verify(ctx context.Context, t tenant) error {
	var answer struct {
		Valid         bool
		FailedAtIndex int64
		Error         string
	}
	if _, err := c.ask(ctx, request("GET", "/v1/verify", t.key, "", ""), 200, &answer); err != nil {
		return err
	}
	if !answer.Valid {
		return fmt.Errorf("chain of %s is not valid at record %d: %s", t.id, answer.FailedAtIndex, answer.Error)
	}
	return nil
}

// tokenForm returns the body of a client credentials grant.
func tokenForm(id, secret string) string {
	return url.Values{"grant_type": {"client_credentials"}, "client_id": {id}, "client_secret": {secret}}.Encode()
}

// registerAgent registers the agent of the requests.
func registerAgent(ctx context.Context, addr string, t tenant) error {
	_, err := ask(ctx, addr, request("POST", "/v1/agents/register", t.key, jsonType, `{"agentId":"`+callerAgent+`"}`), 201, nil)
	return err
}
