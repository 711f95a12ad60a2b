package mcpproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"time"

	"attestd/chain/action"
	"attestd/chain/action/hookevent"
	"attestd/chain/decision"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/spool"
)

// departure is a line from the client in the queue to the server. When decided is closed, the other
// fields say what to forward and what to answer.
type departure struct {
	decided  chan struct{}
	exchange uint64 // of the requests; see requestKey
	size     int64
	line     []byte   // to forward: the line, the allowed part of a batch, or nil
	answer   []byte   // the proxy's own response to the client, or nil
	answers  [][]byte // the responses in answer
	calls    []*call  // the requests in line
	ids      [][]byte // of the calls
	batch    bool     // the client has sent an array
	bytes    int      // of the line, as the client has sent it
	waits    *waiting
	late     *departure // what comes of the line after its call has waited; nil while none does
}

// opens adds a request that is forwarded, unless it is forgotten.
func (d *departure) opens(c *call, id []byte) { d.calls, d.ids = append(d.calls, c), append(d.ids, id) }

// upstream forwards lines from the client to the server until the client ends. Calls are recorded
// concurrently and forwarded in order.
func (p *Proxy) upstream(ctx context.Context, fromClient io.Reader, toServer, toClient io.Writer) error {
	queue := make(chan *departure, maxQueued)
	failed := make(chan error, 1)
	asking, ended := context.WithCancelCause(ctx)
	defer ended(nil)
	waits := &waiting{ctx: asking, late: make(chan *departure), tell: func(message []byte) {
		_ = p.write(toClient, withEnd(message)) // an error also ends downstream
	}}
	go func() {
		defer close(queue)
		failed <- p.receive(ctx, fromClient, waits, queue)
		ended(errClientEnded)
	}()
	var writeErr error // then the server no longer reads and is about to end
	for d := range waits.departures(queue) {
		<-d.decided
		if d.line != nil && writeErr == nil {
			p.calls.markSent(d.calls, time.Now())
			_, writeErr = toServer.Write(d.line)
		}
		if d.answer != nil {
			_ = p.write(toClient, d.answer) // an error also ends downstream
		}
		p.queued.Release(d.size)
	}
	return <-failed
}

// departures are those of the queue in their order, and between them those whose calls have waited.
func (w *waiting) departures(queue <-chan *departure) iter.Seq[*departure] {
	return func(yield func(*departure) bool) {
		for late := w.late; queue != nil || late != nil; {
			var d *departure
			open := true
			select {
			case d, open = <-queue:
				if !open { // so no further call begins to wait
					queue = nil
					go func() {
						w.behind.Wait()
						close(w.late)
					}()
				}
			case d, open = <-late:
				if !open {
					late = nil
				}
			}
			if open && !yield(d) {
				return
			}
		}
	}
}

// receive reads lines and starts to decide each.
func (p *Proxy) receive(ctx context.Context, fromClient io.Reader, waits *waiting, queue chan<- *departure) error {
	in := newLines(fromClient, p.MaxLine)
	for {
		line, err := in.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from the client: %w", err)
		}
		d := &departure{decided: make(chan struct{}), size: min(int64(len(line)), maxQueuedBytes), waits: waits}
		if p.queued.Acquire(ctx, d.size) != nil {
			return nil // the session is over
		}
		p.decide(ctx, d, line)
		select {
		case queue <- d:
		case <-ctx.Done():
			return nil
		}
	}
}

// decide decides which messages of a line to forward. It returns when the line's calls are open,
// and closes d.decided when they are recorded.
func (p *Proxy) decide(ctx context.Context, d *departure, line []byte) {
	if isBlank(line) {
		d.line = line
		close(d.decided)
		return
	}
	messages, batch, err := readLine(line)
	if err != nil {
		d.answer = unreadable(err)
		close(d.decided)
		return
	}
	refuseConfused(messages)
	p.admit(ctx, d, line, messages, batch)
}

// admit decides which of a line's messages to forward. It returns when their calls are open, and
// closes d.decided when they are recorded.
func (p *Proxy) admit(ctx context.Context, d *departure, line []byte, messages []message, batch bool) {
	d.batch, d.bytes = batch, len(line)
	answers := make([][]byte, len(messages)) // to refused messages
	var undecided sync.WaitGroup
	calling := false
	for i, m := range messages {
		if m.method != toolsCall {
			if m.method == "initialize" {
				p.opensPages.Store(opensPages(m.params))
			}
			if p.answersPage(m) {
				answers[i] = []byte{} // it is not forwarded
				continue
			}
			if m.method == "" && m.flaw == "" && m.outcome {
				p.recordOther(p.answeredServer(d.exchange, m))
			}
			if why := p.trackOther(d, m); why != nil {
				answers[i] = invalid(p.answerable(d.exchange, m), why.Error())
				p.warn("a message of the client is refused: %v", why)
			}
			continue
		}
		t := readToolCall(m.params)
		c, why := p.calls.add(d.exchange, m.id, t, time.Now())
		if c == nil {
			answers[i] = refusal(m.id, t.modern, why)
			continue
		}
		if flaw := cmp.Or(m.flaw, t.flaw); flaw != "" && why == nil {
			why = errors.New(flaw)
		}
		d.opens(c, m.id)
		calling = true
		// made here and not in the goroutine, because it needs a deep stack
		requested := p.attestation(c, action.Event{Type: action.ToolRequested, Input: t.arguments})
		undecided.Go(func() {
			defer p.calls.undecided.Done()
			why := p.recordRequest(ctx, d, c, t, requested, why)
			if why == nil {
				return
			}
			// no request has that ID, or another open one has it
			if p.calls.forget(c); m.id == nil || errors.Is(why, errDuplicateID) {
				answers[i] = invalid(nil, why.Error())
				return
			}
			answers[i] = refusal(m.id, c.modern, why)
		})
	}
	if !calling {
		d.assemble(line, messages, batch, answers)
		close(d.decided)
		return
	}
	go func() {
		undecided.Wait()
		if d.late != nil {
			d.late.decided = d.decided // closed
			d.late.assemble(line, messages, batch, answers)
			d.waits.late <- d.late
			d.waits.behind.Done()
			return
		}
		defer close(d.decided)
		d.assemble(line, messages, batch, answers)
	}()
}

// trackOther opens a client's message that is not a call, or returns why it is refused.
func (p *Proxy) trackOther(d *departure, m message) error {
	request, task, duplicate := otherRequest, "", false
	switch {
	case m.flaw != "":
		return errors.New(m.flaw)
	case m.method == "notifications/cancelled":
		var id []byte
		var reason string
		if id, reason, duplicate = readCancelled(m.params); !duplicate {
			p.calls.cancel(d.exchange, id, reason, time.Now())
		}
	case m.method == "tasks/result":
		request = taskResult
		task, duplicate = readTaskID(m.params)
	case strings.HasPrefix(m.method, "tasks/"):
		request = taskStatus
		task, duplicate = readTaskID(m.params)
	}
	if duplicate {
		return errors.New(flawDuplicate)
	}
	if m.method == "" || m.id == nil { // a response or a notification
		return nil
	}
	if name, reads, duplicate := contentOf(m); reads && !p.CallsOnly {
		if duplicate {
			return errors.New(flawDuplicate)
		}
		request, task = contentRead, name
	}
	c, err := p.calls.track(d.exchange, m, request, task, time.Now())
	if err == nil {
		d.opens(c, m.id)
	}
	return err
}

// answerable returns the ID for the refusal of a client's message. It is nil for a response, and if
// another request with that ID is open, so that the refusal is not taken for its response.
func (p *Proxy) answerable(exchange uint64, m message) []byte {
	if m.method == "" && m.outcome || p.calls.isOpen(exchange, m.id) {
		return nil
	}
	return m.id
}

// assemble sets the line to forward and the answer. It removes refused messages from a batch and
// leaves the others unchanged, byte for byte. A refused notification has no answer.
func (d *departure) assemble(line []byte, messages []message, batch bool, answers [][]byte) {
	var left [][]byte
	for i, m := range messages {
		if answers[i] == nil {
			left = append(left, m.raw)
		} else if len(answers[i]) > 0 && (m.hasID || m.flaw == flawNeither || m.flaw == flawNoObject) {
			d.answers = append(d.answers, answers[i])
		}
	}
	switch {
	case len(left) == len(messages):
		d.line = line
	case len(left) > 0:
		d.line = array(left)
	}
	switch {
	case len(d.answers) > 0 && batch:
		d.answer = array(d.answers)
	case len(d.answers) > 0:
		d.answer = withEnd(d.answers[0])
	}
}

// refusedBy returns why a decision refuses a call, or nil.
func refusedBy(made *decision.Decision) error {
	if reason := hookevent.Refused(made); reason != "" {
		return errors.New(reason)
	}
	return nil
}

// attestRequest sends the record of a call to the service, where a decision may be had, or the call
// must not be forwarded without. A decision that is demanded is by the passport, "" for none. why
// is the reason to refuse the call, or nil.
func (p *Proxy) attestRequest(
	ctx context.Context, d *departure, c *call, progress []byte, requested attestd.Attestation, passport string,
) (isRecorded bool, why error) {
	timeout := decisionTimeout
	mustBe := p.FailClosed || p.Decided
	switch {
	case mustBe:
		timeout, requested.Decide = ackTimeout, p.Decided
		if p.Decided {
			requested.Passport = passport
		}
	case time.Since(time.Unix(0, p.undecided.Load())) <= undecidedFor:
		return false, nil
	}
	timed, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	made, err := p.Recorder.Attest(timed, requested)
	if made == nil { // of a company without policies, or of a service that cannot be reached
		p.undecided.Store(time.Now().UnixNano())
	}
	switch isRecorded = err == nil || errors.As(err, new(*spool.ApartError)); {
	case err == nil && made == nil && p.Decided:
		return true, errors.New("attestd has not decided it")
	case err == nil && made != nil && made.Verdict == decision.Ask:
		return true, p.await(ctx, d, c, progress, requested, made)
	case err == nil:
		return true, refusedBy(made)
	case mustBe:
		p.warn("a call of %q is refused, for attestd has not acknowledged its record: %v", c.tool, err)
		return isRecorded, errors.New("attestd has not acknowledged its record")
	}
	return isRecorded, nil
}

// recordRequest records a call before it is forwarded, and returns an error if it is refused. why
// is a reason that is already known, or nil.
func (p *Proxy) recordRequest(
	ctx context.Context, d *departure, c *call, t toolCall, requested attestd.Attestation, why error,
) error {
	passport := ""
	background := context.WithoutCancel(ctx) // the request is recorded even if the session ends
	if why == nil && p.Gate != nil {
		arguments := t.arguments
		if arguments == nil { // a call without them has none
			arguments = []byte("{}")
		}
		passport, why = p.Gate.Check(ctx, p.Server, t.name, arguments)
	}
	isRecorded := false // or refused by the service, with its place in the session
	if why == nil {
		isRecorded, why = p.attestRequest(ctx, d, c, t.progress, requested, passport)
	}
	if why == nil && !isRecorded {
		if err := p.Recorder.Persist(background, requested); err != nil {
			p.warn("a call of %q is refused, for its record cannot be stored: %v", c.tool, err)
			return errors.New("its record cannot be stored")
		}
	}
	if why == nil {
		return nil
	}
	// After a timeout the service may already have the first record. The idempotency key prevents a
	// second one.
	var err error
	if !isRecorded {
		err = p.Recorder.Persist(background, requested)
	}
	denied := p.attestation(c, action.Event{Type: action.ToolDenied, Reason: why.Error()})
	if err := errors.Join(err, p.Recorder.Persist(background, denied)); err != nil {
		p.warn("the refusal of a call of %q cannot be recorded: %v", c.tool, err)
	}
	return why
}
