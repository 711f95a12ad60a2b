// Package mcpproxy is a proxy between an MCP client and a stdio server. It records each tools/call
// and its outcome. It forwards lines byte for byte and in order, for every revision of the
// protocol. Only U+0085, U+2028 and U+2029, which some readers treat as the end of a line, are
// replaced with their escapes.
//
// # What is recorded
//
// A call has two records (package action): tool.requested, and tool.completed, tool.failed or
// tool.denied. The proxy forwards a call only after the first is durable: synced to the local disk
// or, if the proxy fails closed, acknowledged by the service. It forwards the response at once and
// records it afterwards. So a killed proxy may leave a call without an outcome, but no call
// unrecorded. A response with input_required is not an outcome; it is recorded in full as
// tool.pending. The call that brings the input has the same callId and its own tool.requested. A
// task is not an outcome either: its outcome is each response to tasks/result, and each response to
// another tasks/ request with more than a status. A pending response with any other content is
// recorded as the outcome.
//
// A cancelled call stays open, because a response may still come. A call fails in the records if
// the server ends without a response to it. It also fails after a day without a response, ten
// minutes after a cancellation, and an hour after a request for input.
//
// Other messages than calls are recorded as mcp.message, with hashes of its content: what the
// client reads with resources/read and prompts/get, what the server asks of the client and is
// answered, and what it says, such as progress and log messages. Messages that answer nothing are
// counted, and recorded once a minute by their method, but for the first 100 requests of the
// server. They are recorded after they were forwarded, and no call waits for them.
//
// Where the records are signed they are one session, which ends with the record session.ended.
//
// # What waits
//
// A call whose decision asks for an approval waits for it, for AskWait at most, while other lines
// go on. The client is told by progress, where the call has a progressToken, and over standard
// input and output by an elicitation with the URL of the page that decides, where the client has
// that capability. The wait ends with the call's cancellation, and with the client. A call of a
// batch, one in a line over 256 KiB, and one while 100 others wait are refused at once, as is the
// call at the end of its wait: once it is approved, the same call again is allowed.
//
// # What is refused
//
// The proxy answers a refused call itself, with an error result, so that the agent reads the
// reason. It refuses a call that cannot be recorded, that the passport does not cover, or that has
// the ID of an open request; a call when 10,000 others are open; and an ambiguous call, which two
// parsers could read differently, such as one with a carriage return inside its line. If a client's
// line is not JSON or has more than 1,000 messages, the proxy returns the error that a server would
// return, and so it does for what is no object with a method, a result or an error, such as a batch
// inside a batch, for an empty batch, and for a method that resembles tools/call. A line over the
// length limit ends the session. The proxy replaces a server's line with an error if it is
// ambiguous, is no message, answers no open request or is not JSON. A replaced response to a call
// is recorded in full as tool.failed.
//
// # Memory
//
// The proxy queues at most 256 lines and 64 MiB for the server, and outcomes of 64 MiB for the
// recorder. Beyond that it stops reading. A single line may be as long as the length limit.
package mcpproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"attestd/chain/action"
	"attestd/chain/decision"
	"attestd/sdk/attestd"
)

// Recorder stores records.
type Recorder interface {
	// Persist returns when the record is durable: it will reach the service even if this process is
	// killed.
	Persist(ctx context.Context, a attestd.Attestation) error
	// Attest returns when the service has acknowledged the record, and the decision that the record
	// holds; nil for none.
	Attest(ctx context.Context, a attestd.Attestation) (*decision.Decision, error)
}

// Gate decides which calls may be made.
type Gate interface {
	// Check returns an error for a tool of a server that may not be called now with arguments,
	// which are JSON. The agent reads its text. passport is that by which the call is decided.
	Check(ctx context.Context, server, tool string, arguments []byte) (passport string, err error)
}

// Config configures a proxy. Agent, Server and Recorder are required.
type Config struct {
	Agent      string // the agent of the records
	Session    string // its ID; "" makes one up
	Signed     bool   // the records are signed, and the last one ends the session
	Server     string // the server's name in the records
	Recorder   Recorder
	Policy     action.Policy
	FailClosed bool // forward a call only after the service has acknowledged its record
	Decided    bool // forward a call only after the service has decided that it is allowed
	Gate       Gate // nil allows all tools
	// AskWait is for how long a call that needs an approval waits for it; 0 refuses it at once.
	// Approvals is required unless it is 0.
	AskWait   time.Duration
	Approvals Approvals
	CallsOnly bool // record calls of tools alone, and no other messages
	MaxLine   int  // bytes; 0 is DefaultMaxLine
	Warn      func(text string)
}

const (
	// DefaultMaxLine is the default length limit of a line in either direction.
	DefaultMaxLine = 64 << 20

	maxQueued      = 256      // lines from the client that are not yet forwarded
	maxQueuedBytes = 64 << 20 // of such lines, and of responses that are not yet recorded
	maxOutcomes    = 32       // recorded concurrently, and as many queued
)

// ackTimeout bounds the wait for the service to acknowledge the record of a call.
const ackTimeout = 10 * time.Second

// A call waits for so long for a decision that is not demanded, and after a record without one, of
// a company without policies, so long for none.
const (
	decisionTimeout = 2 * time.Second
	undecidedFor    = 10 * time.Second
)

// Proxy is one session of a client with a server.
type Proxy struct {
	Config
	session string
	// secret prefix of the idempotency keys; no record contains it, so no one else can use a key
	// first
	keys  string
	calls *calls
	// messages are the messages other than calls
	messages messages
	quiet    bool // a session without a call or a message leaves no record

	waits      *semaphore.Weighted // calls that wait for approvals
	opensPages atomic.Bool         // the client opens pages that it is asked to
	pages      string              // secret prefix of the IDs of such requests

	// when the service last acknowledged a request without a decision, in Unix nanoseconds
	undecided atomic.Int64

	queued   *semaphore.Weighted // bytes
	outcomes *semaphore.Weighted // bytes
	queue    chan ended

	out sync.Mutex // serialises writes to the client, so that lines do not interleave
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
		Config: c, session: cmp.Or(c.Session, NewSession()), keys: attestd.NewIdempotencyKey(), calls: newCalls(),
		waits: semaphore.NewWeighted(maxWaiting), pages: "attestd-" + attestd.NewIdempotencyKey() + "-",
		queued: semaphore.NewWeighted(maxQueuedBytes), outcomes: semaphore.NewWeighted(maxQueuedBytes), queue: make(chan ended, maxOutcomes),
	}
}

// NewSession makes up the ID of a session.
func NewSession() string { return uuid.Must(uuid.NewV7()).String() }

// Run forwards lines until the server's output ends, and returns when all calls are recorded. When
// the client ends, Run closes the server's input and still forwards what the server sends. It may
// leave a blocked read of fromClient behind.
func (p *Proxy) Run(ctx context.Context, fromClient io.Reader, toClient io.Writer, fromServer io.Reader, toServer io.WriteCloser) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	finish := p.open(ctx)

	up := make(chan error, 1)
	hangUp := sync.OnceFunc(func() { _ = toServer.Close() })
	go func() {
		defer hangUp()
		up <- p.upstream(ctx, fromClient, toServer, toClient)
	}()
	err := p.downstream(fromServer, toClient, hangUp)
	hangUp()
	select {
	case upErr := <-up: // the client has ended, or its line was too long
		err = errors.Join(err, upErr)
	default:
	}
	cancel()
	return errors.Join(err, finish("the server ended before it answered"))
}

// open starts to record a session. When no message is forwarded any more, the caller MUST call
// finish, which records open calls as failed with a reason, and returns when all is recorded.
func (p *Proxy) open(ctx context.Context) (finish func(why string) error) {
	ctx, cancel := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { p.sweep(ctx) })
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		p.recordOutcomes(context.WithoutCancel(ctx))
	}()
	return func(why string) error {
		cancel()
		p.calls.end()
		for _, c := range p.calls.overdue(time.Time{}) {
			p.recordUnanswered(c, why)
		}
		background.Wait()
		p.outcome(ended{})
		close(p.queue)
		<-swept
		if p.Signed && (p.hasRecorded() || !p.quiet) {
			return p.seal(context.WithoutCancel(ctx))
		}
		return nil
	}
}

// seal records the end of the session.
func (p *Proxy) seal(ctx context.Context) error {
	r := p.Policy.Record(p.Agent, action.Event{Type: action.SessionEnded, Source: source, Server: p.Server, SessionID: p.session})
	if err := p.Recorder.Persist(ctx, attestd.Attestation{
		AgentID: p.Agent, ActionType: r.ActionType, Payload: r.Payload, IdempotencyKey: p.keys + ":session.ended", Last: true,
	}); err != nil {
		return fmt.Errorf("the end of the session cannot be stored: %w", err)
	}
	return nil
}

// sweep records calls without a response as failed after their deadline.
func (p *Proxy) sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			for _, c := range p.calls.overdue(now) {
				p.recordUnanswered(c, fmt.Sprintf("no answer came within %v", callLife))
			}
			p.messages.nextInterval()
			p.outcome(ended{})
		}
	}
}

// attestation makes the record of an event of a call.
func (p *Proxy) attestation(c *call, e action.Event) attestd.Attestation {
	e.Source, e.Server, e.Tool, e.CallID, e.SessionID, e.Trace = source, p.Server, c.tool, c.name, p.session, c.trace
	r := p.Policy.Record(p.Agent, e)
	// A client may reuse its call IDs, so the key has the proxy's own number. All outcomes share a
	// key, because a call has only one.
	key := fmt.Sprintf("%s:%d:tool.outcome", p.keys, c.number)
	if e.Type == action.ToolRequested || e.Type == action.ToolPending {
		key = fmt.Sprintf("%s:%d:%s", p.keys, c.number, e.Type)
	}
	return attestd.Attestation{AgentID: p.Agent, ActionType: r.ActionType, Payload: r.Payload, IdempotencyKey: key}
}

// source is the source member of the records.
const source = "mcp"

func (p *Proxy) warn(format string, args ...any) { p.Warn(fmt.Sprintf(format, args...)) }
