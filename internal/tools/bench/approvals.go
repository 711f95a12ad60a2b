package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// asksForAll is a set that allows a call of one tool with an approval alone.
const asksForAll = `permit (principal, action, resource) unless { resource == Tool::"bank/transfer" };
permit (principal, action, resource == Tool::"bank/transfer") when { context.approved };`

// pendingEach is how many approvals an agent may have pending.
const pendingEach = 100

// approvals measures requests for which an approval is pending, in turns with those that need none;
// what pending approvals cost in memory beside as many plain records; and requests that wait.
func (b *bench) approvals(ctx context.Context) (err error) {
	server, t, err := b.serveTenant(ctx, "approvals.db", "--rate-limits", "off")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	body, _ := json.Marshal(map[string]string{"cedar": asksForAll}) // text has no error
	if _, err := ask(ctx, server.addr, request("PUT", "/v1/policies/ask", t.key, jsonType, string(body)), 200, nil); err != nil {
		return err
	}
	attest := func(agent, tool string, n int) []byte {
		return request("POST", "/v1/attest", t.key, jsonType, fmt.Sprintf(`{"agentId":%q,"actionType":"tool.requested","payload":%s}`, agent,
			decidedPayload(`"server":"bank","tool":"`+tool+`"`, fmt.Sprintf(`{"amount":%d,"to":"eve"}`, n))))
	}
	if err := b.pendingInTurns(ctx, server, attest); err != nil {
		return err
	}
	id, err := b.pendingMemory(ctx, server, t, attest)
	if err != nil {
		return err
	}
	return b.waiters(ctx, server, t, id)
}

func (b *bench) pendingInTurns(ctx context.Context, server *child, attest func(agent, tool string, n int) []byte) error {
	rounds, each := pick(b.quick, 3, 9), pick(b.quick, 150*time.Millisecond, time.Second)
	for _, clients := range []int{1, 64} {
		column := fmt.Sprintf("%d clients", clients)
		b.say("approvals: %s", column)
		sides := [2]*side{}
		for i, tool := range []string{"transfer", "balance"} {
			req := attest(callerAgent, tool, 0)
			sides[i] = &side{child: server, status: 201, request: func(int) []byte { return req }}
		}
		c, err := inTurns(ctx, sides[0], sides[1], clients, rounds, each)
		if err != nil {
			return fmt.Errorf("%s: %w", column, err)
		}
		b.report.add("approvals", column, "requests with one pending/s", c.perSecond, perSecond, nil)
		b.report.addRounds("approvals", column, "  ÷ requests that need none", c.ratios, nil)
	}
	return nil
}

// pendingMemory returns the ID of one of the approvals that it has made.
func (b *bench) pendingMemory(ctx context.Context, server *child, t tenant, attest func(agent, tool string, n int) []byte) (id string, err error) {
	agents := pick(b.quick, 2, 90)
	b.say("%d pending approvals", agents*pendingEach)
	var grown [2]float64 // bytes for each: of plain records, and of those that ask
	for i, tool := range []string{"balance", "transfer"} {
		before, has := residentBytes(server.pid())
		for n := range agents * pendingEach {
			if _, err := ask(ctx, server.addr, attest(fmt.Sprint("asker-", n/pendingEach), tool, n), 201, nil); err != nil {
				return "", err
			}
		}
		if after, _ := residentBytes(server.pid()); has {
			grown[i] = float64(after-before) / float64(agents*pendingEach)
		}
	}
	column := fmt.Sprint(agents*pendingEach, " pending")
	b.report.add("approvals", column, "memory of each, beside a record's", (grown[1]-grown[0])/1024, kibibytes, atMost(2))
	var page struct{ Approvals []struct{ ApprovalID string } }
	if _, err := ask(ctx, server.addr, request("GET", "/v1/approvals?state=pending&limit=1", t.key, "", ""), 200, &page); err != nil {
		return "", err
	}
	return page.Approvals[0].ApprovalID, nil
}

// waiters has requests wait for an approval, and measures their memory and whether the server goes
// on beside them.
func (b *bench) waiters(ctx context.Context, server *child, t tenant, id string) error {
	count := pick(b.quick, 100, 1000)
	b.say("%d requests that wait", count)
	before, has := residentBytes(server.pid())
	waiting, err := connect(ctx, server.addr, count)
	if err != nil {
		return err
	}
	defer hangUp(waiting)
	for _, c := range waiting {
		if _, err := c.conn.Write(request("GET", "/v1/approvals/"+id+"?wait=55", t.key, "", "")); err != nil {
			return err
		}
	}
	var took []time.Duration
	for range 200 {
		began := time.Now()
		if _, err := ask(ctx, server.addr, request("GET", "/v1/company", t.key, "", ""), 200, nil); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	after, _ := residentBytes(server.pid())
	column := fmt.Sprint(count, " waiters")
	if has {
		b.report.add("approvals", column, "memory of each, with its connection", float64(after-before)/float64(count)/1024, kibibytes, nil)
	}
	b.report.add("approvals", column, "another request, p50", millis(percentile(took, 50)), milli, nil)
	return nil
}
