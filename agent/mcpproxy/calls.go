package mcpproxy

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// kind is the kind of a client's request.
type kind int

const (
	otherRequest kind = iota // not recorded
	contentRead              // its outcome is recorded, as a message
	toolCalled
	taskResult // a request for the outcome of a call that has become a task
	taskStatus // a request for the status of such a call; some servers respond with its outcome
)

// call is a request of the client without a response, or a call with a response that is no outcome.
type call struct {
	key      requestKey
	kind     kind
	number   uint64 // sequence number in this session, from 1
	tool     string
	name     string // callId in the records
	trace    string
	modern   bool
	began    time.Time // when it was forwarded; zero before
	deadline time.Time // when it counts as unanswered; zero is never
	// the error to record without a response; "" unless the client has cancelled
	cancelled string
	parked    string // the error to record if it stays parked; "" while it is open
	task      *call  // the call whose outcome or status it requests, or nil
	method    string // of a request that reads content; tool is what it reads
	fetched   bool   // it is parked, and its outcome is recorded
	stopWait  func() // ends the wait for its approval; nil while there is none
}

const (
	maxCalls = 10_000         // open at the same time, and as many other requests
	callLife = 24 * time.Hour // time limit for a response
	// the same after a cancellation, which the response may have crossed
	cancelledLife = 10 * time.Minute
	// time limit for the call that brings the input which a server has requested
	inputLife      = time.Hour
	sweepInterval  = time.Minute
	maxCallName    = 256 // maximum bytes of a stored name; longer ones are truncated
	maxTraceparent = 128
)

// Reasons to refuse a request whose response could not be attributed.
var (
	errTooManyCalls = fmt.Errorf("%d calls are open", maxCalls)
	errEnded        = errors.New("the server has ended")
	errDuplicateID  = errors.New("another open request has its ID")
)

// requestKey identifies an open request. The requests of a session share one space of IDs, the
// exchange 0. Over HTTP without a session each exchange has its own.
type requestKey struct {
	exchange uint64
	id       string
}

// calls are the client's open requests in a session. The server's requests are not among them: they
// have an ID space of their own.
type calls struct {
	mu        sync.Mutex
	ended     bool           // add refuses further calls
	undecided sync.WaitGroup // calls that are neither forwarded nor dropped
	last      uint64
	count     int // open and parked calls
	others    int // other open requests
	open      map[requestKey]*call
	// calls whose response was no outcome, by the key of the client's continuation: tool and state,
	// or task
	parked map[string][]*call
}

func newCalls() *calls {
	return &calls{open: make(map[requestKey]*call), parked: make(map[string][]*call)}
}

// add opens a call. It returns no call after the server has ended. Otherwise the caller MUST call
// undecided.Done when the call is forwarded or refused. A call with an error is not open and MUST
// NOT be forwarded. A call that brings requested input replaces the call that it continues and
// inherits its name.
func (cs *calls) add(exchange uint64, id []byte, t toolCall, now time.Time) (*call, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.ended {
		return nil, errEnded
	}
	cs.undecided.Add(1)
	cs.last++
	c := &call{
		key: keyOf(exchange, id), kind: toolCalled, number: cs.last, tool: truncate(t.name), name: t.toolUseID, trace: t.trace,
		modern: t.modern, deadline: now.Add(callLife),
	}
	c.name = truncate(cmp.Or(c.name, spelt(id)))
	if len(c.trace) > maxTraceparent {
		c.trace = ""
	}
	switch {
	case id == nil: // a call without an ID has no response
		return c, nil
	case cs.open[c.key] != nil:
		return c, errDuplicateID
	}
	if place := inputPlace(c.tool, t.state); t.retry && len(cs.parked[place]) > 0 {
		before := cs.parked[place][0]
		cs.unpark(place, before)
		c.name = before.name
	}
	if cs.count >= maxCalls {
		return c, errTooManyCalls
	}
	cs.open[c.key] = c
	cs.count++
	return c, nil
}

// track opens a request that is not a call, so that its response is not attributed to a call. what
// is the task that it asks for, or the content that it reads.
func (cs *calls) track(exchange uint64, m message, k kind, what string, now time.Time) (*call, error) {
	id, task := m.id, what
	cs.mu.Lock()
	defer cs.mu.Unlock()
	key := keyOf(exchange, id)
	switch {
	case cs.ended:
		return nil, errEnded
	case cs.open[key] != nil:
		return nil, errDuplicateID
	case cs.others >= maxCalls:
		return nil, errTooManyCalls
	}
	c := &call{key: key, kind: otherRequest}
	if k == contentRead {
		c = &call{key: key, kind: k, method: m.method, tool: what, name: truncate(spelt(id)), deadline: now.Add(callLife)}
		task = ""
	}
	if list := cs.parked[taskPlace(task)]; task != "" && len(list) > 0 {
		// Every response is recorded separately, because a server may answer each request
		// differently.
		cs.last++
		of := list[0]
		c = &call{
			key: key, kind: k, number: cs.last, tool: of.tool, name: of.name, trace: of.trace,
			modern: of.modern, deadline: now.Add(callLife), task: of,
		}
	}
	cs.open[key] = c
	cs.others++
	return c, nil
}

// keyOf returns a key of bounded size for an ID.
func keyOf(exchange uint64, id []byte) requestKey {
	if len(id) <= maxCallName {
		return requestKey{exchange, string(id)}
	}
	sum := sha256.Sum256(id)
	return requestKey{exchange, "#" + string(sum[:])}
}

// spelt returns an ID as records have it: the text of a string, or the digits of a number.
func spelt(id []byte) string { return cmp.Or(text(id), string(id)) }

func truncate(s string) string {
	if len(s) > maxCallName {
		return strings.Clone(s[:maxCallName])
	}
	return s
}

// drop removes an open request. cs.mu is held.
func (cs *calls) drop(c *call) {
	if cs.open[c.key] != c {
		return
	}
	delete(cs.open, c.key)
	if c.kind == toolCalled {
		cs.count--
	} else {
		cs.others--
	}
}

// forget drops a request that is not forwarded.
func (cs *calls) forget(c *call) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.drop(c)
}

// abandon ends the wait for the responses to requests whose HTTP response is over, and returns the
// requests. If the response may be resumed, they stay open, and why is the error to record if it is
// not.
func (cs *calls) abandon(list []*call, why string, resumable bool, now time.Time) (unanswered []*call) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range list {
		if cs.open[c.key] != c {
			continue
		}
		if c.cancelled == "" {
			c.cancelled = truncate(why)
		}
		if resumable {
			if c.deadline.IsZero() {
				c.deadline = now.Add(callLife)
			}
			continue
		}
		cs.drop(c)
		unanswered = append(unanswered, c)
		if c.kind == taskResult { // the missing response is the outcome
			c.task.fetched = true
		}
	}
	return unanswered
}

// isOpen reports whether a request with that ID has no response yet.
func (cs *calls) isOpen(exchange uint64, id []byte) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.open[keyOf(exchange, id)] != nil
}

// isIdle reports whether no request waits for anything.
func (cs *calls) isIdle() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.count == 0 && cs.others == 0
}

// markSent sets the time at which requests were forwarded.
func (cs *calls) markSent(list []*call, now time.Time) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range list {
		c.began = now
	}
}

// cancel marks a request as cancelled by the client. It stays open, because a response may still
// come.
func (cs *calls) cancel(exchange uint64, id []byte, reason string, now time.Time) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.open[keyOf(exchange, id)]
	if c == nil {
		return
	}
	c.cancelled = truncate("cancelled by the client: " + reason)
	if reason == "" {
		c.cancelled = "cancelled by the client"
	}
	c.deadline = now.Add(cancelledLife)
	if c.stopWait != nil {
		c.stopWait()
	}
}

// answered removes and returns the request with that ID. It returns nil if there is none, or if the
// response arrived before the request was forwarded.
func (cs *calls) answered(exchange uint64, id []byte, arrived time.Time) *call {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, spelling := range [][]byte{id, otherIDType(id)} {
		if spelling == nil {
			continue
		}
		if c := cs.open[keyOf(exchange, spelling)]; c != nil && !c.began.IsZero() && !c.began.After(arrived) {
			cs.drop(c)
			return c
		}
	}
	return nil
}

// otherIDType converts an ID from a number to a string or back, or returns nil. Some servers
// respond with the other type, and some clients accept that.
func otherIDType(id []byte) []byte {
	switch {
	case id == nil:
		return nil
	case id[0] != '"':
		return slices.Concat([]byte{'"'}, id, []byte{'"'})
	}
	digits := jsontext.Value(text(id))
	if digits.Kind() != '0' || !digits.IsValid() {
		return nil
	}
	return identifier(digits)
}

// end makes add refuse further calls, and returns when no call is undecided.
func (cs *calls) end() {
	cs.mu.Lock()
	cs.ended = true
	cs.mu.Unlock()
	cs.undecided.Wait()
}

// overdue removes the requests past their deadline, or all if now is zero. It returns those without
// an outcome.
func (cs *calls) overdue(now time.Time) (list []*call) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	over := func(c *call) bool { return now.IsZero() || !c.deadline.IsZero() && !now.Before(c.deadline) }
	for _, c := range cs.open {
		if over(c) {
			cs.drop(c)
			list = append(list, c)
			if c.kind == taskResult { // the missing response is the outcome
				c.task.fetched = true
			}
		}
	}
	for place, waiting := range cs.parked {
		for _, c := range slices.Clone(waiting) {
			if over(c) {
				if cs.unpark(place, c); !c.fetched {
					list = append(list, c)
				}
			}
		}
	}
	return list
}

// inputPlace and taskPlace return the map keys of parked calls: those that wait for input for this
// tool and state, and those that have become this task.
func inputPlace(tool string, state []byte) string {
	sum := sha256.Sum256([]byte(tool + "\x00" + string(state)))
	return "input " + string(sum[:])
}

func taskPlace(task string) string {
	sum := sha256.Sum256([]byte(task))
	return "task " + string(sum[:])
}

// park stores a call whose response is not an outcome.
func (cs *calls) park(c *call, r toolResult, arrived time.Time) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	place := taskPlace(r.task)
	c.parked, c.deadline = "it became a task, whose result was not fetched", arrived.Add(callLife)
	if r.needsInput {
		place = inputPlace(c.tool, r.state)
		c.parked, c.deadline = "the server asked for input, and the call was not made again", arrived.Add(inputLife)
	}
	cs.parked[place] = append(cs.parked[place], c)
	cs.count++
}

// markFetched marks a task's outcome as recorded. Its call stays parked for a while, because the
// client may request the outcome again.
func (cs *calls) markFetched(task *call, now time.Time) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	task.fetched, task.deadline = true, now.Add(inputLife)
}

// unpark removes a parked call. cs.mu is held.
func (cs *calls) unpark(place string, c *call) {
	list := cs.parked[place]
	at := slices.Index(list, c)
	if at < 0 {
		return
	}
	if cs.count--; len(list) == 1 {
		delete(cs.parked, place)
	} else {
		cs.parked[place] = append(list[:at:at], list[at+1:]...)
	}
}
