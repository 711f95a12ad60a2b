package mcpproxy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// kind is what a request of the client asks for, as far as it matters here.
type kind int

const (
	otherRequest kind = iota // nothing of it is recorded
	toolCalled
	taskResult // the outcome of a call that has become a task
	taskStatus // how such a call stands; some servers answer with its outcome
)

// call is a request of the client whose answer has not been seen yet, or a call that has an answer
// and no outcome.
type call struct {
	kind      kind
	number    uint64 // of this session's calls, from 1 on
	tool      string
	name      string // callId in the records
	trace     string
	modern    bool
	began     time.Time // when it went to the server; zero before
	deadline  time.Time // when it is given up; zero is never
	cancelled string    // what to say of it when no answer comes; "" while it is not cancelled
	parked    string    // what to say of it when it stays parked; "" while it is open
	task      *call     // whose outcome or status it asks for, where that is a call
	fetched   bool      // parked, and its outcome is recorded
}

const (
	maxCalls = 10_000         // open at once, and as many other requests
	callLife = 24 * time.Hour // how long an answer is waited for
	// the same once the client has cancelled: the answer may be under way
	cancelledLife = 10 * time.Minute
	// how long the call is waited for that brings the input which a server has asked for
	inputLife      = time.Hour
	sweepInterval  = time.Minute
	maxCallName    = 256 // bytes of what is kept of names; a longer one is kept as its beginning
	maxTraceparent = 128
)

// Why a request is refused that would leave it unclear what an answer belongs to.
var (
	errFull  = fmt.Errorf("%d calls are open", maxCalls)
	errEnded = errors.New("the server has ended")
	errTaken = errors.New("its ID is that of another open request")
)

// calls are the open requests of a session. Those of the client alone: a server's have IDs of their
// own, which may be the same.
type calls struct {
	mu     sync.Mutex
	ended  bool           // no more are added
	asking sync.WaitGroup // calls that are neither sent nor forgotten
	last   uint64
	count  int              // of calls, open or parked
	others int              // of open requests beside them
	open   map[string]*call // by the request's ID
	// whose answer was no outcome, by what the client goes on with: the tool and state, or the task
	parked map[string][]*call
}

func newCalls() *calls {
	return &calls{open: make(map[string]*call), parked: make(map[string][]*call)}
}

// add notes a call that is on its way to the server; whoever adds it calls asking.Done when it is
// decided. It returns nil when the server has ended. With another error the call is not open, and
// must not go on. One that brings the input which the server has asked for takes the place, and the
// name, of the one that it goes on from.
func (cs *calls) add(id []byte, t toolCall, now time.Time) (*call, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.ended {
		return nil, errEnded
	}
	cs.asking.Add(1)
	cs.last++
	c := &call{
		kind: toolCalled, number: cs.last, tool: brief(t.name), name: t.toolUseID, trace: t.trace, modern: t.modern, deadline: now.Add(callLife),
	}
	if c.name == "" {
		if c.name = text(id); c.name == "" {
			c.name = string(id)
		}
	}
	c.name = brief(c.name)
	if len(c.trace) > maxTraceparent {
		c.trace = ""
	}
	switch {
	case id == nil: // nobody answers a call without one
		return c, nil
	case cs.open[idKey(id)] != nil:
		return c, errTaken
	}
	if place := inputPlace(c.tool, t.state); t.again && len(cs.parked[place]) > 0 {
		before := cs.parked[place][0]
		cs.unpark(place, before)
		c.name = before.name
	}
	if cs.count >= maxCalls {
		return c, errFull
	}
	cs.open[idKey(id)] = c
	cs.count++
	return c, nil
}

// track notes a request that is no call, so that its answer is not taken for that of one.
func (cs *calls) track(id []byte, k kind, task string, now time.Time) (*call, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	switch {
	case cs.ended:
		return nil, errEnded
	case cs.open[idKey(id)] != nil:
		return nil, errTaken
	case cs.others >= maxCalls:
		return nil, errFull
	}
	c := &call{kind: otherRequest}
	if list := cs.parked[taskPlace(task)]; task != "" && len(list) > 0 {
		// Every answer is recorded on its own: a server may answer one request with something else
		// than the next.
		cs.last++
		of := list[0]
		c = &call{kind: k, number: cs.last, tool: of.tool, name: of.name, trace: of.trace, modern: of.modern, deadline: now.Add(callLife), task: of}
	}
	cs.open[idKey(id)] = c
	cs.others++
	return c, nil
}

// idKey bounds what is kept of an ID.
func idKey(id []byte) string {
	if len(id) <= maxCallName {
		return string(id)
	}
	sum := sha256.Sum256(id)
	return "#" + string(sum[:])
}

func brief(s string) string {
	if len(s) > maxCallName {
		return strings.Clone(s[:maxCallName])
	}
	return s
}

// drop takes an open request out. cs.mu is held.
func (cs *calls) drop(key string, c *call) {
	if cs.open[key] != c {
		return
	}
	delete(cs.open, key)
	if c.kind == toolCalled {
		cs.count--
	} else {
		cs.others--
	}
}

// forget drops a request that does not go to the server.
func (cs *calls) forget(id []byte, c *call) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.drop(idKey(id), c)
}

// isOpen reports whether a request of that ID has no answer yet.
func (cs *calls) isOpen(id []byte) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.open[idKey(id)] != nil
}

// sent notes that requests have gone to the server now.
func (cs *calls) sent(list []*call, now time.Time) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range list {
		c.began = now
	}
}

// cancel notes that the client has given a request up. It stays open, for its answer may still
// come.
func (cs *calls) cancel(id []byte, reason string, now time.Time) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.open[idKey(id)]
	if c == nil {
		return
	}
	c.cancelled = brief("cancelled by the client: " + reason)
	if reason == "" {
		c.cancelled = "cancelled by the client"
	}
	c.deadline = now.Add(cancelledLife)
}

// answered takes out the request that an answer, which arrived then, is to. It returns nil when
// there is none, and for an answer that a server has given before the request went to it.
func (cs *calls) answered(id []byte, arrived time.Time) *call {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, spelling := range [][]byte{id, otherKind(id)} {
		if spelling == nil {
			continue
		}
		key := idKey(spelling)
		if c := cs.open[key]; c != nil && !c.began.IsZero() && !c.began.After(arrived) {
			cs.drop(key, c)
			return c
		}
	}
	return nil
}

// otherKind is the number that an ID names as a string, or the string of a number: some servers
// answer so, and some clients take it. It is nil where there is none.
func otherKind(id []byte) []byte {
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

// end lets no call be added any more, and returns when all that were are decided.
func (cs *calls) end() {
	cs.mu.Lock()
	cs.ended = true
	cs.mu.Unlock()
	cs.asking.Wait()
}

// overdue takes out the requests whose time is over; with the zero time, all. It returns those that
// have no outcome.
func (cs *calls) overdue(now time.Time) (list []*call) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	over := func(c *call) bool { return now.IsZero() || !c.deadline.IsZero() && !now.Before(c.deadline) }
	for key, c := range cs.open {
		if over(c) {
			cs.drop(key, c)
			list = append(list, c)
			if c.kind == taskResult { // that it has no answer is the outcome
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
