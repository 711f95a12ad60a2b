package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// passportLength measures whether issuing a passport becomes slower with the number that were
// issued: a server with many, in turns with one that has few.
func (b *bench) passportLength(ctx context.Context) (err error) {
	const clients = 64
	many := pick(b.quick, 5_000, 200_000)
	var sides [2]*side // with many, with few
	for i := range sides {
		server, t, failed := b.serveTenant(ctx, fmt.Sprintf("passports-%d.db", i))
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, server.stop()) }()
		if err := registerAgent(ctx, server.addr, t); err != nil {
			return err
		}
		issue := request("POST", "/v1/agents/"+callerAgent+"/passport", t.key, "", "")
		sides[i] = &side{child: server, status: 201, request: func(int) []byte { return issue }}
	}
	b.say("issuing %d passports", many)
	if sides[0].clients, err = connect(ctx, sides[0].child.addr, clients); err != nil {
		return err
	}
	_, err = sides[0].load(ctx, 10*time.Minute, many)
	hangUp(sides[0].clients)
	if err != nil {
		return err
	}
	b.say("issuing beside a server with few")
	c, err := inTurns(ctx, sides[0], sides[1], clients, pick(b.quick, 3, 10), pick(b.quick, 100*time.Millisecond, 300*time.Millisecond))
	if err != nil {
		return err
	}
	column := fmt.Sprintf("after %d", many)
	b.report.add("passports issued, 64 clients", column, "requests/s", c.perSecond, perSecond, nil)
	b.report.addRounds("passports issued, 64 clients", column, "  ÷ after the first few thousand", c.ratios, atLeast(0.9))
	return nil
}
