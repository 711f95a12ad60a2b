package mcpproxy

import (
	"crypto/sha256"
	"strings"
	"sync"
	"time"
)

// call is a tools/call whose outcome has not been seen yet.
type call struct {
	number    uint64 // of this session's calls, from 1 on
	tool      string
	name      string // callId in the records
	trace     string
	modern    bool
	began     time.Time // when it went to the server; zero before
	deadline  time.Time // when it is given up
	cancelled string    // what to say of it when no answer comes; "" while it is not cancelled
	parked    string    // what to say of it when it stays parked; "" while it is open
}

const (
	maxCalls       = 10_000           // open at once
	callLife       = 24 * time.Hour   // how long an answer is waited for
	cancelledLife  = 10 * time.Minute // the same once the client has cancelled: the answer may be under way
	inputLife      = time.Hour        // how long the call is waited for that brings the input which a server has asked for
	sweepInterval  = time.Minute
	maxCallName    = 256 // bytes of what is kept of names; a longer one is kept as its beginning
	maxTraceparent = 128
)

// calls are the open calls of a session. Those of the client alone: a server's requests have IDs of their own, which may be the same.
type calls struct {
	mu     sync.Mutex
	ended  bool           // no more are added
	asking sync.WaitGroup // those that are neither sent nor forgotten
	last   uint64
	count  int
	open   map[string][]*call // by the request's ID; a client that uses one twice gets its answers in order
	parked map[string][]*call // whose answer was no outcome, by what the client goes on with: the tool and state, or the task
}

func newCalls() *calls {
	return &calls{open: make(map[string][]*call), parked: make(map[string][]*call)}
}

// add notes a call that is on its way to the server; whoever adds it calls asking.Done when it is decided. It returns nil when the server
// has ended. When there are too many, the call is not open, and full is true. One that brings the input which the server has asked for takes the place,
// and the name, of the one that it goes on from.
func (cs *calls) add(id []byte, t toolCall, now time.Time) (c *call, full bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.ended {
		return nil, false
	}
	cs.asking.Add(1)
	cs.last++
	c = &call{number: cs.last, tool: brief(t.name), name: t.toolUseID, trace: t.trace, modern: t.modern, deadline: now.Add(callLife)}
	if c.name == "" {
		if c.name = text(id); c.name == "" {
			c.name = string(id)
		}
	}
	if place := inputPlace(c.tool, t.state); t.again && len(cs.parked[place]) > 0 {
		before := cs.parked[place][0]
		cs.drop(cs.parked, place, before)
		c.name = before.name
	}
	c.name = brief(c.name)
	if len(c.trace) > maxTraceparent {
		c.trace = ""
	}
	switch {
	case cs.count >= maxCalls:
		return c, true
	case id != nil: // nobody answers a call without one
		cs.open[idKey(id)] = append(cs.open[idKey(id)], c)
		cs.count++
	}
	return c, false
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

// inputPlace and taskPlace are where calls are parked that a tool has answered with this state, or that have become this task.
func inputPlace(tool string, state []byte) string {
	sum := sha256.Sum256([]byte(tool + "\x00" + string(state)))
	return "input " + string(sum[:])
}

func taskPlace(task string) string {
	sum := sha256.Sum256([]byte(task))
	return "task " + string(sum[:])
}

// park keeps a call that has an answer and no outcome. cs.mu is held.
func (cs *calls) park(place string, c *call, deadline time.Time, otherwise string) {
	c.parked, c.deadline = otherwise, deadline
	cs.parked[place] = append(cs.parked[place], c)
	cs.count++
}

// drop takes a call out of one of the two tables. cs.mu is held.
func (cs *calls) drop(table map[string][]*call, key string, c *call) {
	list := table[key]
	for i := range list {
		if list[i] != c {
			continue
		}
		if cs.count--; len(list) == 1 {
			delete(table, key)
		} else {
			table[key] = append(list[:i:i], list[i+1:]...)
		}
		return
	}
}

// forget drops a call that does not go to the server.
func (cs *calls) forget(id []byte, c *call) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.drop(cs.open, idKey(id), c)
}

// sent notes that calls have gone to the server now.
func (cs *calls) sent(list []*call, now time.Time) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range list {
		c.began = now
	}
}

// cancel notes that the client has given a call up. It stays open, for its answer may still come.
func (cs *calls) cancel(id []byte, reason string, now time.Time) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.open[idKey(id)] {
		c.cancelled = brief("cancelled by the client: " + reason)
		if reason == "" {
			c.cancelled = "cancelled by the client"
		}
		c.deadline = now.Add(cancelledLife)
	}
}

// answered takes out the call that an answer, which arrived then, is to, and says how long it took. It returns nil when there is none, for an answer
// that a server has given before the call went to it, and for one that is no outcome: then the call is parked until the client goes on with it.
func (cs *calls) answered(id []byte, r toolResult, arrived time.Time) (c *call, took time.Duration) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	list := cs.open[idKey(id)]
	if len(list) == 0 || list[0].began.IsZero() || list[0].began.After(arrived) {
		return nil, 0
	}
	c = list[0]
	cs.drop(cs.open, idKey(id), c)
	switch {
	case r.needsInput:
		cs.park(inputPlace(c.tool, r.state), c, arrived.Add(inputLife), "the server asked for input, and the call was not made again")
		return nil, 0
	case r.task != "":
		cs.park(taskPlace(r.task), c, arrived.Add(callLife), "it became a task, whose result was not fetched")
		return nil, 0
	}
	return c, arrived.Sub(c.began)
}

// fetch opens the call again that has become a task, under the ID of the request for its result.
func (cs *calls) fetch(id []byte, task string, now time.Time) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	list := cs.parked[taskPlace(task)]
	if id == nil || len(list) == 0 {
		return
	}
	c := list[0]
	cs.drop(cs.parked, taskPlace(task), c)
	c.parked, c.deadline = "", now.Add(callLife)
	cs.open[idKey(id)] = append(cs.open[idKey(id)], c)
	cs.count++
}

// end lets no call be added any more, and returns when all that were are decided.
func (cs *calls) end() {
	cs.mu.Lock()
	cs.ended = true
	cs.mu.Unlock()
	cs.asking.Wait()
}

// overdue takes out the calls whose time is over; with the zero time, all.
func (cs *calls) overdue(now time.Time) (list []*call) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, table := range []map[string][]*call{cs.open, cs.parked} {
		for key, waiting := range table {
			for _, c := range append([]*call(nil), waiting...) {
				if now.IsZero() || !now.Before(c.deadline) {
					cs.drop(table, key, c)
					list = append(list, c)
				}
			}
		}
	}
	return list
}
