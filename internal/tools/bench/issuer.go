package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// issuer measures what a company gives as an issuer, each with 64 clients in turns with the bare
// server: tokens for others, and what verifiers fetch.
func (b *bench) issuer(ctx context.Context) (err error) {
	server, t, err := b.serveTenant(ctx, "issuer.db")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	if err := registerAgent(ctx, server.addr, t); err != nil {
		return err
	}
	token := func(algorithm string) []byte {
		return request("POST", "/v1/agents/"+callerAgent+"/token", t.key, jsonType, `{"audience":"https://mcp.example","alg":"`+algorithm+`"}`)
	}
	rounds, each := pick(b.quick, 3, 7), pick(b.quick, 150*time.Millisecond, 700*time.Millisecond)
	for _, c := range []struct {
		column  string
		status  int
		request []byte
		target  *target // nil for RS256, which may cost what RSA costs
	}{
		{"token, ES256", 201, token("ES256"), atLeast(0.28)},
		{"token, RS256", 201, token("RS256"), nil},
		{"key set", 200, request("GET", "/o/"+t.id+"/jwks", "", "", ""), atLeast(0.8)},
		{"metadata", 200, request("GET", "/o/"+t.id+"/.well-known/openid-configuration", "", "", ""), atLeast(0.8)},
	} {
		b.say("%s", c.column)
		if err := b.issued(ctx, server, c.column, c.status, c.request, c.target, rounds, each); err != nil {
			return fmt.Errorf("%s: %w", c.column, err)
		}
	}
	return nil
}

func (b *bench) issued(ctx context.Context, server *child, column string, status int, asked []byte, least *target, rounds int,
	each time.Duration) (err error) {
	size, err := ask(ctx, server.addr, asked, status, nil) // which makes the key that signs
	if err != nil {
		return err
	}
	bare, err := b.startBare(ctx, size, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.stop()) }()
	result, err := against(ctx, server, bare, 64, status, [][]byte{asked}, rounds, each)
	if err == nil {
		b.addComparison("issuer, 64 clients", column, "requests/s", result, least, nil)
	}
	return err
}
