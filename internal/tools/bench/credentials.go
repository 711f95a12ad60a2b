package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// passports is the number of passports that are verified in turns, because agents present the same
// one many times.
const passports = 256

// credentials measures the requests about identities, each with 64 clients in turns with the
// bare server. Issuing tokens and passports is durable; verifying one reads whether the passport is
// revoked.
func (b *bench) credentials(ctx context.Context) (err error) {
	server, t, err := b.serveTenant(ctx, "credentials.db")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	var client struct{ ClientID, ClientSecret string }
	if _, err := ask(ctx, server.addr, request("POST", "/v1/oauth/clients", t.key, "", ""), 201, &client); err != nil {
		return err
	}
	if err := registerAgent(ctx, server.addr, t); err != nil {
		return err
	}
	issue := request("POST", "/v1/agents/"+callerAgent+"/passport", t.key, "", "")
	checks := make([][]byte, passports)
	for i := range checks {
		var issued struct{ Passport string }
		if _, err := ask(ctx, server.addr, issue, 201, &issued); err != nil {
			return err
		}
		checks[i] = request("POST", "/v1/passport/verify", t.key, jsonType, `{"passport":"`+issued.Passport+
			`","tool":"payments.transfer"}`)
	}

	const tokens = 64 // that are asked about in turns
	form := tokenForm(client.ClientID, client.ClientSecret)
	asked := make([][]byte, tokens)
	for i := range asked {
		var issued struct {
			AccessToken string `json:"access_token"`
		}
		if _, err := ask(ctx, server.addr, request("POST", "/v1/oauth/token", "", formType, form), 200, &issued); err != nil {
			return err
		}
		about := url.Values{"token": {issued.AccessToken}, "client_id": {client.ClientID}, "client_secret": {client.ClientSecret}}
		asked[i] = request("POST", "/o/"+t.id+"/introspect", "", formType, about.Encode())
	}

	rounds, each := pick(b.quick, 3, 7), pick(b.quick, 150*time.Millisecond, 700*time.Millisecond)
	for _, c := range []struct {
		column   string
		status   int
		requests [][]byte // sent in turns
		least    float64  // of the bare server
	}{
		{"OAuth token issued", 200, [][]byte{request("POST", "/v1/oauth/token", "", formType, form)}, 0.3},
		{"token introspected", 200, asked, 0.4},
		{"passport issued", 201, [][]byte{issue}, 0.3},
		{"passport verified", 200, checks, 0.3},
	} {
		b.say("%s", c.column)
		if err := b.credential(ctx, server, c.column, c.status, c.requests, c.least, rounds, each); err != nil {
			return fmt.Errorf("%s: %w", c.column, err)
		}
	}
	return nil
}

func (b *bench) credential(ctx context.Context, server *child, column string, status int, requests [][]byte,
	least float64, rounds int, each time.Duration) (err error) {
	size, err := ask(ctx, server.addr, requests[0], status, nil)
	if err != nil {
		return err
	}
	bare, err := b.startBare(ctx, size, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.stop()) }()
	result, err := against(ctx, server, bare, 64, status, requests, rounds, each)
	if err != nil {
		return err
	}
	b.addComparison("credentials, 64 clients", column, "requests/s", result, atLeast(least), nil)
	return nil
}
