package hook

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"attestd/chain/action"
	"attestd/internal/regular"
	"attestd/sdk/attestd/private"
)

// subagents remembers which call has launched which subagent in the background, because the agent
// reports the end of a subagent without its call, and perhaps before the launch. The file of a
// subagent has the call; it is empty when the subagent has ended. Old files are removed like those
// of sessions that have ended.
type subagents struct{ folder string }

// launchingCall is what a file says.
type launchingCall struct {
	Tool      string `json:"tool"`
	CallID    string `json:"callId"`
	AgentType string `json:"agentType,omitempty"`
}

// maxLaunch is the maximum size in bytes of a file.
const maxLaunch = 64 << 10

// launched notes a call that has launched a subagent, and reports whether that has ended.
func (s subagents) launched(e action.Event) (ended bool, err error) {
	text, err := json.Marshal(launchingCall{e.Tool, e.CallID, e.AgentType})
	if err != nil || len(text) > maxLaunch {
		return false, err
	}
	before, err := s.exchange(e, text, false)
	return before != nil && len(before) == 0, err
}

// ended notes that a subagent has ended, and returns the call that has launched it; ok is false
// where there is none that is not over yet.
func (s subagents) ended(e action.Event) (call launchingCall, ok bool, err error) {
	before, err := s.exchange(e, nil, true)
	if err != nil || len(before) == 0 {
		return call, false, err
	}
	err = json.Unmarshal(before, &call)
	return call, err == nil, err
}

// exchange writes the file of a subagent, and returns what stood there; nil where there was none.
// Without replace a file that is there stays.
func (s subagents) exchange(e action.Event, text []byte, replace bool) (before []byte, err error) {
	if err := private.Check(s.folder); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.folder, 0o700); err != nil {
		return nil, err
	}
	files := ends(s)
	files.removeOld(time.Now())
	unlock, err := files.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	path := files.path(e.SessionID + "\n" + e.SubagentID)
	before, err = regular.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		before = nil
	case err != nil:
		return nil, err
	case before == nil:
		before = []byte{}
	}
	if before != nil && !replace {
		return before, nil
	}
	return before, overwrite(path, text)
}

// followSubagent returns an event and, where that shows it, the outcome of the call that has
// launched a subagent in the background. Without the folder the end of a subagent names no call.
func (h *Hook) followSubagent(e action.Event) []action.Event {
	remembered, events := subagents{h.Subagents}, []action.Event{e}
	var err error
	switch {
	case h.Subagents == "" || e.SubagentID == "":
	case e.Type == action.ToolPending:
		var ended bool
		if ended, err = remembered.launched(e); ended {
			events = append(events, e.EndedBy(nil))
		}
	case e.Type == action.SubagentEnded:
		var by launchingCall
		var ok bool
		if by, ok, err = remembered.ended(e); ok {
			call := e.Launch()
			call.Tool, call.CallID, call.AgentType = by.Tool, by.CallID, by.AgentType
			events = append(events, call.EndedBy(e.Output))
		}
	}
	if err != nil {
		h.WithoutSpool(err)
	}
	return events
}
