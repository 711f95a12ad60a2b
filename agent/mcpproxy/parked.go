package mcpproxy

import (
	"crypto/sha256"
	"slices"
	"time"
)

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
