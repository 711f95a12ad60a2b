package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"attestd/agent/approval"
	"attestd/chain/decision"
	"attestd/sdk/attestd"
)

// Approvals are asked by a proxy. *attestd.Client implements it.
type Approvals interface {
	approval.Waiter
	// Approval returns an approval, without waiting where wait is 0.
	Approval(ctx context.Context, id string, wait time.Duration) (attestd.Approval, error)
}

const (
	// maxWaiting bounds the calls of a session that wait for approvals, and maxWaitingLine their
	// lines, in bytes: so many lines are held without holding up the others. The calls beyond are
	// refused at once, and can be repeated.
	maxWaiting     = 100
	maxWaitingLine = 256 << 10

	progressInterval = 15 * time.Second
)

var errClientEnded = errors.New("the client ended before the call was approved")

// waiting is what the calls of a client's lines need that wait for approvals, while other lines go
// on to the server.
type waiting struct {
	ctx    context.Context      // ends when the client does
	tell   func(message []byte) // sends a message of the proxy to the client; nil for none
	late   chan *departure      // departures whose calls have waited; nil where none overtakes
	behind sync.WaitGroup       // calls that are to come there
}

// overtakes reports whether other lines of the client go on while one waits.
func (w *waiting) overtakes() bool { return w.late != nil }

// letOthersPass decides to forward nothing for now. What comes of the line is in a departure of its
// own.
func (d *departure) letOthersPass() {
	if !d.waits.overtakes() {
		return
	}
	d.waits.behind.Add(1)
	d.late = &departure{exchange: d.exchange, size: d.size, calls: d.calls, ids: d.ids}
	d.size = 0 // released with the late one
	close(d.decided)
}

// await waits for the approval that the decision of a call asks for, until the call is cancelled or
// the client has gone. It returns why the call is refused, or nil.
func (p *Proxy) await(
	ctx context.Context, d *departure, c *call, progress []byte, requested attestd.Attestation, made *decision.Decision,
) error {
	if p.AskWait <= 0 || made.Approval == "" || d.batch || len(d.ids[0]) == 0 || d.bytes > maxWaitingLine || !p.waits.TryAcquire(1) {
		return refusedBy(made)
	}
	defer p.waits.Release(1)
	until, stop := context.WithTimeout(d.waits.ctx, p.AskWait)
	defer stop()
	p.calls.beginWait(c, stop)
	d.letOthersPass()
	var telling sync.WaitGroup
	told, end := context.WithCancel(until)
	if d.waits.tell != nil {
		telling.Go(func() { p.tell(told, d.waits.tell, progress, made.Approval) })
	}
	reason := approval.Await(until, p.Approvals, made, func(id string) (*decision.Decision, error) {
		again := requested
		again.IdempotencyKey, again.Decide = fmt.Sprintf("%s:%d:%s", p.keys, c.number, id), p.Decided
		ctx, cancel := context.WithTimeout(ctx, ackTimeout)
		defer cancel()
		return p.Recorder.Attest(ctx, again)
	})
	end()
	telling.Wait()
	switch cancelled := p.calls.endWait(c); {
	case cancelled != "":
		return errors.New(cancelled)
	case reason != "" && errors.Is(context.Cause(until), errClientEnded):
		return errClientEnded
	case reason != "":
		return errors.New(reason)
	}
	return nil
}

// tell tells the client that its call waits, until ctx ends: by progress, where the call asks for
// that, and by the page that decides, where the client opens pages.
func (p *Proxy) tell(ctx context.Context, tell func([]byte), progress []byte, id string) {
	a, err := p.Approvals.Approval(ctx, id, 0)
	if err != nil {
		a = attestd.Approval{ID: id}
	}
	message := "waiting for approval " + id
	if a.URL != "" {
		message += " at " + a.URL
	}
	opened := false
	if opened = p.opensPages.Load() && a.URL != ""; opened {
		tell(request(p.pageID(id), "elicitation/create", map[string]any{
			"mode": "url", "elicitationId": id, "url": a.URL, "message": "A person must approve a call of " + a.Tool + ".",
		}))
	}
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for n := 1; ctx.Err() == nil; n++ {
		if progress != nil {
			// The server's own progress begins at 0 or 1 as a rule, and progress must increase.
			tell(request("", "notifications/progress", map[string]any{
				"progressToken": json.RawMessage(progress), "progress": float64(n) / 1e6, "message": message,
			}))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	if opened {
		tell(request("", "notifications/elicitation/complete", map[string]any{"elicitationId": id}))
	}
}

// request is a request of the proxy to the client, or a notification with "" for the ID.
func request(id, method string, params map[string]any) []byte {
	message := map[string]any{"jsonrpc": "2.0", "method": method, "params": params}
	if id != "" {
		message["id"] = id
	}
	text, _ := json.Marshal(message) // texts, numbers and a token that was read as JSON
	return text
}

// pageID is the ID of the request to open the page of an approval. No server knows its beginning.
func (p *Proxy) pageID(approvalID string) string { return p.pages + approvalID }

// answersPage reports whether a message of the client answers a request of the proxy to open a
// page. What the client did is no decision.
func (p *Proxy) answersPage(m message) bool {
	return m.method == "" && m.outcome && strings.HasPrefix(text(m.id), p.pages)
}

// opensPages reports whether a client's capabilities, in its initialize, have elicitation by URL.
func opensPages(params []byte) (opens bool) {
	_, _, _ = members(params, map[string]func([]byte){"capabilities": func(all []byte) {
		_, _, _ = members(all, map[string]func([]byte){"elicitation": func(modes []byte) {
			_, _, _ = members(modes, map[string]func([]byte){"url": func([]byte) { opens = true }})
		}})
	}})
	return opens
}

// beginWait makes stop end the wait of a call when it is cancelled, or has been.
func (cs *calls) beginWait(c *call, stop context.CancelFunc) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c.stopWait = stop; c.cancelled != "" {
		stop()
	}
}

// endWait returns why a call was cancelled while it waited; "" if it was not.
func (cs *calls) endWait(c *call) (cancelled string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.stopWait = nil
	return c.cancelled
}
