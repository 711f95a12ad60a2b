package projection

// The tables as differences and records name them.
const (
	TableCedarPolicy    = "cedar_policy"
	TableCedarSet       = "cedar_set"
	TableAgentGroups    = "agent_groups"
	TableDecisionPolicy = "decision_policy"
)

// CedarPolicy is a policy by which calls are decided.
type CedarPolicy struct {
	SHA256      string `json:"sha256"` // of the text, in hex
	Description Text   `json:"description"`
}

// CedarSet is what the policies of a company make together.
type CedarSet struct {
	Revision int64  `json:"revision"` // how often it has changed
	SHA256   string `json:"set"`      // of the set, in hex
}

// CedarSet compares a set; the zero one means a missing row.
func (l *Latest) CedarSet(has CedarSet) *Difference {
	return againstOrNone(l, TableCedarSet, "", has, CedarSet{}, (*details).cedarSet)
}

func (d *details) cedarSet() CedarSet { return CedarSet{d.Revision, d.Set} }

// subjectCedarSet is of all records about the policies: each says what set they make after it.
const subjectCedarSet = "policies"

// AgentGroups is the groups of an agent.
type AgentGroups struct {
	Groups string `json:"groups"` // a JSON array in the form of RFC 8785; "" for none
}

// AgentGroups compares the groups of an agent; the zero ones mean a missing row.
func (l *Latest) AgentGroups(agentID string, has AgentGroups) *Difference {
	return againstOrNone(l, TableAgentGroups, agentID, has, AgentGroups{}, (*details).agentGroups)
}

func (d *details) agentGroups() AgentGroups { return AgentGroups{list(d.Groups)} }

// subjectAgentGroups begins the subject of agent.policy-changed where that is about AgentGroups.
// Without it the record is about a Policy.
const subjectAgentGroups = "agent-groups:"

// DecisionPolicy says which decisions become records by themselves.
type DecisionPolicy struct {
	Decisions string `json:"decisions"` // denied or all; "" for denied
}

// DecisionPolicy compares the policy of a company; the zero one means a missing row.
func (l *Latest) DecisionPolicy(has DecisionPolicy) *Difference {
	return againstOrNone(l, TableDecisionPolicy, "", has, DecisionPolicy{}, (*details).decisionPolicy)
}

func (d *details) decisionPolicy() DecisionPolicy { return DecisionPolicy{d.Decisions} }

// subjectDecisions is of company.policy-changed where that is about DecisionPolicy.
const subjectDecisions = "decisions"

// putCedar enters a policy that a record puts or deletes, with the set after it.
func (s *State) putCedar(index int64, action string, d *details) error {
	if d.PolicyID == "" {
		return errNoRow
	}
	if action == "policy.put" {
		s.CedarPolicies[d.PolicyID] = Entry[CedarPolicy]{CedarPolicy{d.SHA256, TextOf(d.Description)}, index}
	} else {
		delete(s.CedarPolicies, d.PolicyID)
	}
	s.CedarSets[""] = Entry[CedarSet]{d.cedarSet(), index}
	return nil
}
