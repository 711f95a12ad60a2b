package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// forward measures what a proxy waits for before it forwards a request: the decision about it, by
// the agent's passport and 100 policies, in turns with the bare server.
func (b *bench) forward(ctx context.Context) (err error) {
	server, t, err := b.serveTenant(ctx, "forward.db")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	if err := registerAgent(ctx, server.addr, t); err != nil {
		return err
	}
	var made struct{ Passport, Key string }
	for path, body := range map[string]string{"/v1/agents/" + callerAgent + "/passport": `{"scopes":["http:*"]}`, "/v1/keys": `{"role":"reader"}`} {
		if _, err := ask(ctx, server.addr, request("POST", path, t.key, jsonType, body), 201, &made); err != nil {
			return err
		}
	}
	if err := putPolicies(ctx, server.addr, t, policiesLike(100)); err != nil {
		return err
	}
	asked := strings.Join([]string{
		"GET /v1/authz HTTP/1.1", "Host: 127.0.0.1", "X-Attestd-Authorization: Bearer " + made.Key, "X-Original-Method: GET", "X-Original-URI: /v1/reports?page=2",
		"X-Forwarded-Host: api.example.com", "X-Forwarded-Proto: https", "Service-Passport: " + made.Passport, "", "",
	}, "\r\n")
	bare, err := b.startBare(ctx, 0, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.stop()) }()
	const section = "forward authorization"
	rounds, each := pick(b.quick, 3, 9), pick(b.quick, 150*time.Millisecond, time.Second)
	for _, clients := range []int{1, 16, 64} {
		column := fmt.Sprintf("%d clients", clients)
		b.say("%s: %s", section, column)
		subject := &side{child: server, status: 200, request: func(int) []byte { return []byte(asked) }}
		reference := &side{child: bare, status: 201, request: func(int) []byte { return request("GET", "/o/", "", "", "") }}
		c, err := inTurns(ctx, subject, reference, clients, rounds, each)
		if err != nil {
			return err
		}
		b.report.add(section, column, "decisions/s", c.perSecond, perSecond, nil)
		b.report.addRounds(section, column, "  ÷ bare server", c.ratios, atLeast(0.5))
		var most *target
		if clients == 1 {
			most = atMost(0.5)
		}
		b.report.add(section, column, "p50", millis(c.p50), milli, most)
		b.report.add(section, column, "p99", millis(c.p99), milli, nil)
		if c.hasCPU {
			b.report.add(section, column, "server CPU each", micros(c.cpu), micro, nil)
			b.report.add(section, column, "  bare server's", micros(c.bareCPU), micro, nil)
		}
	}
	return nil
}
