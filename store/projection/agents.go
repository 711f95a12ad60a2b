package projection

import (
	"fmt"
	"time"
)

// TableAgent is the table as differences and records name it.
const TableAgent = "agent"

// Agent is a registered agent.
type Agent struct {
	RegisteredAt string `json:"registeredAt"`
	MetadataHash string `json:"metadataHash"`
	DisabledAt   string `json:"disabledAt"` // "" while enabled
}

// disabling is when an agent was disabled.
type disabling struct {
	index int64
	at    string
	unix  int64
}

func (s *State) agentChanged(index int64, action string, d *details) error {
	at := d.DisabledAt // "" where the agent was enabled
	if action == "agent.disabled" {
		unix, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return fmt.Errorf("has no time: %w", err)
		}
		id := s.shared(d.AgentID)
		s.disabled[id] = append(s.disabled[id], disabling{index, at, unix.Unix()})
	}
	return alter(s, s.Agents, d.AgentID, index, func(a *Agent) { a.DisabledAt = at })
}

// Agent compares whether an agent is there, and since when it is disabled: all that holds it back.
func (l *Latest) Agent(id string, registered bool, disabledAt string) *Difference {
	type state struct {
		Registered bool   `json:"registered"`
		DisabledAt string `json:"disabledAt"`
	}
	has := state{registered, disabledAt}
	switch {
	case l == nil && !registered:
		return nil
	case l == nil:
		return unrecorded(TableAgent, id, has)
	}
	want := state{true, l.Payload.DisabledAt} // which only agent.disabled has
	accepted, gone, is, err := row[Agent](l)
	if is {
		want = state{!gone, accepted.DisabledAt}
	}
	return l.compare(TableAgent, id, false, err, func() *Difference { return differs(TableAgent, id, has, Entry[state]{want, l.Index}) })
}
