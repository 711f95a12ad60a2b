// Package mcpproxy stands between an MCP client and a server that speaks over standard input and
// output, and records each tools/call and its outcome. What goes on is what was judged: lines go on
// byte for byte, in their order, whatever revision of the protocol they are of. Only U+0085, U+2028
// and U+2029, which some readers take for the end of a line, go on as escapes.
//
// # What is recorded
//
// A call makes two records (package toolcall): tool.requested, and tool.completed, tool.failed or
// tool.denied. A call goes on to the server only when the first is kept: synced on this machine's
// disk, or, where the proxy fails closed, acknowledged by the service. The answer goes on to the
// client at once, and its record is kept after; so a proxy that is killed may leave a call without
// an outcome, but none unrecorded.
//
// An answer with input_required is no outcome, and recorded whole as tool.pending. The call that
// brings the input goes on from it under the same callId, with a tool.requested of its own. Nor is
// a task: its outcome is each answer to tasks/result, and to other requests about the task where
// that says more than how it stands. An answer that holds anything beside is recorded as the
// outcome. A call that is cancelled stays open, for its answer may still come. A call fails in the
// records when the server ends before it answers, and when no answer comes within a day; ten
// minutes after it was cancelled; an hour after input was asked for.
//
// # What is refused
//
// A call that must not go on is answered here: with a result that is an error, so that the agent
// reads why. Refused are calls that cannot be recorded, that the passport does not cover, that are
// open beside 10,000 others, that have the ID of an open request, and that two readers could
// understand in two ways, as with a carriage return that does not end the line. A line of the
// client that is no JSON, or holds more than 1,000 messages, is answered with the error that a
// server would give. A line that is longer than the bound ends the session.
//
// Of the server, what two readers could understand in two ways, what answers no open request and
// what is no JSON does not go on. An error stands in its place; where it is to a call, it is
// recorded whole, as tool.failed.
//
// # Memory
//
// On their way to the server are at most 256 lines, and at most 64 MiB of them, however many calls
// wait to be recorded; as much of outcomes waits to be recorded. What comes beyond waits with its
// sender. A lone line may be as long as the bound on lines.
package mcpproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"attestd/agent/toolcall"
	"attestd/sdk/attestd"
)

// Recorder takes records.
type Recorder interface {
	// Keep returns when the record will reach the service, whatever happens to this process.
	Keep(ctx context.Context, a attestd.Attestation) error
	// Attest returns when the service has acknowledged the record.
	Attest(ctx context.Context, a attestd.Attestation) error
}

// Gate says which tools may be called.
type Gate interface {
	// Check returns an error, whose text the agent reads, for a tool that may not be called now.
	Check(ctx context.Context, tool string) error
}

// Config is what a proxy needs. Agent, Server and Recorder must be given.
type Config struct {
	Agent      string // in whose name it records
	Server     string // what the records call the server
	Recorder   Recorder
	Policy     toolcall.Policy
	FailClosed bool // calls wait until the service has acknowledged their record
	Gate       Gate // nil lets all pass
	MaxLine    int  // bytes; 0 is DefaultMaxLine
	Warn       func(text string)
}

const (
	// DefaultMaxLine bounds a line of either side.
	DefaultMaxLine = 64 << 20

	maxQueued      = 256      // lines of the client on their way to the server
	maxQueuedBytes = 64 << 20 // of such lines, and of answers whose record is not kept yet
	maxOutcomes    = 32       // whose record is being kept, and as many whose turn it is next
)

// ackTimeout is how long a call may wait for the service to acknowledge its record.
const ackTimeout = 10 * time.Second

// Proxy is one session of a client with a server.
type Proxy struct {
	Config
	session string
	// what all its idempotency keys begin with; it stands in no record, so that nobody can take a
	// key beforehand
	keys  string
	calls *calls

	queued   *semaphore.Weighted // bytes
	outcomes *semaphore.Weighted // bytes
	queue    chan ended

	out sync.Mutex // of the client's input: a line is written whole
}

// New returns a proxy for one session.
func New(c Config) *Proxy {
	if c.MaxLine == 0 {
		c.MaxLine = DefaultMaxLine
	}
	if c.Warn == nil {
		c.Warn = func(string) {}
	}
	return &Proxy{
		Config: c, session: uuid.Must(uuid.NewV7()).String(), keys: attestd.NewIdempotencyKey(), calls: newCalls(),
		queued: semaphore.NewWeighted(maxQueuedBytes), outcomes: semaphore.NewWeighted(maxQueuedBytes), queue: make(chan ended, maxOutcomes),
	}
}

// Run carries the session until the server's output ends, and returns when the records of all its
// calls are kept. A client that ends closes the server's input; the server then has its time to
// answer. Of fromClient it may leave a read behind that has not returned.
func (p *Proxy) Run(ctx context.Context, fromClient io.Reader, toClient io.Writer, fromServer io.Reader, toServer io.WriteCloser) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var background sync.WaitGroup
	background.Go(func() { p.sweep(ctx) })

	kept := make(chan struct{})
	go func() {
		defer close(kept)
		p.keepOutcomes(context.WithoutCancel(ctx))
	}()

	up := make(chan error, 1)
	hangUp := sync.OnceFunc(func() { _ = toServer.Close() })
	go func() {
		defer hangUp()
		up <- p.upstream(ctx, fromClient, toServer, toClient)
	}()
	err := p.downstream(fromServer, toClient, hangUp)
	hangUp()
	select {
	case upErr := <-up: // the client is gone, or its line was too long
		err = errors.Join(err, upErr)
	default:
	}
	cancel()
	p.calls.end()
	for _, c := range p.calls.overdue(time.Time{}) {
		p.giveUp(c, "the server ended before it answered")
	}
	background.Wait()
	close(p.queue)
	<-kept
	return err
}

// sweep gives up calls whose time is over.
func (p *Proxy) sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			for _, c := range p.calls.overdue(now) {
				p.giveUp(c, fmt.Sprintf("no answer came within %v", callLife))
			}
		}
	}
}

// attestation makes the record of an event in the life of a call.
func (p *Proxy) attestation(c *call, e toolcall.Event) attestd.Attestation {
	e.Source, e.Server, e.Tool, e.CallID, e.SessionID, e.Trace = source, p.Server, c.tool, c.name, p.session, c.trace
	r := p.Policy.Record(p.Agent, e)
	// A client's names of calls may come twice, so the key has the number. A call has one outcome.
	key := fmt.Sprintf("%s:%d:tool.outcome", p.keys, c.number)
	if e.Kind == toolcall.Requested || e.Kind == toolcall.Pending {
		key = fmt.Sprintf("%s:%d:%s", p.keys, c.number, e.Kind)
	}
	return attestd.Attestation{AgentID: p.Agent, ActionType: r.ActionType, Payload: r.Payload, IdempotencyKey: key}
}

// source is what the records name as their source.
const source = "mcp"

func (p *Proxy) warn(format string, args ...any) { p.Warn(fmt.Sprintf(format, args...)) }
