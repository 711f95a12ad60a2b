package api

import (
	"context"
	"time"

	"attestd/chain"
	"attestd/chain/decision"
	"attestd/chain/search"
	"attestd/server/httpapi"
	"attestd/store"
)

type histogramRequest struct {
	Agent       string        `query:"agent"`
	Action      string        `query:"action"`
	DelegatedBy string        `query:"delegatedBy"`
	Since       string        `query:"since"`
	Until       string        `query:"until"`
	Decision    string        `query:"decision" must:"oneof allow deny ask"`
	Policy      string        `query:"policy" must:"given"`
	Buckets     int64         `query:"buckets" must:"number 1..200" default:"60"`
	By          string        `query:"by"`
	Log         store.LogName `query:"log" must:"log"`
}

type histogramBody struct {
	Since   string       `json:"since"`
	Until   string       `json:"until"`
	Total   int64        `json:"total"`
	Size    int64        `json:"size"`
	Buckets []bucketBody `json:"buckets"`

	// nil unless asked for
	*byAgent
	*byAction
	*byDecision
}

// byAgent has the records of the agents with the most of them.
type byAgent struct {
	Agents    int64        `json:"agents"` // how many have records in the period
	TopAgents []agentCount `json:"topAgents"`
}

type agentCount struct {
	AgentID string  `json:"agentId"`
	Total   int64   `json:"total"`
	Counts  []int64 `json:"counts"` // one for each bucket
}

// byAction has the actions with the most records.
type byAction struct {
	Actions    int64         `json:"actions"` // how many have records in the period
	TopActions []actionCount `json:"topActions"`
}

type actionCount struct {
	ActionType string `json:"actionType"`
	Total      int64  `json:"total"`
}

// byDecision has the records with a decision.
type byDecision struct {
	Verdicts []verdictCount `json:"verdicts"` // each of the verdicts
}

type verdictCount struct {
	Verdict string  `json:"verdict"`
	Total   int64   `json:"total"`
	Counts  []int64 `json:"counts"` // one for each bucket
}

// mostTopActions is how many actions a histogram names.
const mostTopActions = 50

// mostTopAgents is how many agents a histogram names.
const mostTopAgents = 20

type bucketBody struct {
	Since string `json:"since"`
	Count int64  `json:"count"`
}

// Count is an addition to the specification: the number of matching records over time.
func (s *Searches) Count(ctx context.Context, by store.Caller, r histogramRequest) (a histogramBody, err error) {
	switch {
	case r.By != "" && r.By != "agent" && r.By != "action" && r.By != "decision":
		return a, httpapi.BadQuery("by must be agent, action or decision")
	case r.By == "decision" && r.Decision != "":
		return a, httpapi.BadQuery("by=decision counts each verdict, and takes no decision")
	case r.By != "" && r.By != "decision" && (r.Decision != "" || r.Policy != "" || r.Agent != "" || r.Action != "" || r.DelegatedBy != "" || r.Log != store.Actions):
		return a, httpapi.BadQuery("by=" + r.By + " counts all records of the log of actions, and takes since, until and buckets alone")
	}
	what, err := s.searched(ctx, by, &recordsRequest{
		Agent: r.Agent, Action: r.Action, DelegatedBy: r.DelegatedBy, Since: r.Since, Until: r.Until, Log: r.Log,
		Decision: r.Decision, Policy: r.Policy, Order: "oldest",
	})
	if err != nil {
		return a, err
	}
	done, err := s.beginSearch(by.Company.Chain, 1)
	if err != nil {
		return a, err
	}
	defer done()
	since, until, err := s.span(ctx, by, &what, r)
	if err != nil {
		return a, err
	}
	a = histogramBody{Since: chain.FormatTime(since), Until: chain.FormatTime(until), Size: what.size}
	span := until.UnixMilli() - since.UnixMilli()
	buckets := min(r.Buckets, span)
	a.Buckets = make([]bucketBody, buckets)
	borders := make([]int64, 0, buckets+1) // one more than buckets, also where there are none
	for i := range buckets {
		start := time.UnixMilli(since.UnixMilli() + span/buckets*i + span%buckets*i/buckets)
		border := what.from
		if a.Buckets[i].Since = chain.FormatTime(start); i > 0 {
			if border, err = s.Store.SizeAt(ctx, what.log.Chain, what.to, a.Buckets[i].Since); err != nil {
				return a, damage(err)
			}
		}
		borders = append(borders, border)
	}
	reader, borders := &turns{Reader: s.Store, s: s}, append(borders, what.to)
	counts, err := search.Count(ctx, reader, what.log.Chain, what.filter, borders)
	if err != nil {
		return a, damage(err)
	}
	for i := range a.Buckets {
		a.Buckets[i].Count = counts[i]
		a.Total += counts[i]
	}
	switch r.By {
	case "agent":
		a.byAgent, err = countAgents(ctx, reader, what.log.Chain, borders)
	case "action":
		a.byAction, err = countActions(ctx, reader, what.log.Chain, what.from, what.to)
	case "decision":
		a.byDecision, err = countDecisions(ctx, reader, what.log.Chain, what.filter, borders)
	}
	return a, err
}

func countAgents(ctx context.Context, reader search.Reader, number int64, borders []int64) (*byAgent, error) {
	top, agents, err := search.CountAgents(ctx, reader, number, borders, mostTopAgents)
	if err != nil {
		return nil, damage(err)
	}
	counts := &byAgent{Agents: int64(agents), TopAgents: []agentCount{}}
	for _, t := range top {
		counts.TopAgents = append(counts.TopAgents, agentCount{t.Agent, t.Total, t.Counts})
	}
	return counts, nil
}

func countActions(ctx context.Context, reader search.Reader, number, from, to int64) (*byAction, error) {
	top, actions, err := search.CountActions(ctx, reader, number, from, to, mostTopActions)
	if err != nil {
		return nil, damage(err)
	}
	counts := &byAction{Actions: int64(actions), TopActions: []actionCount{}}
	for _, t := range top {
		counts.TopActions = append(counts.TopActions, actionCount{t.Action, t.Total})
	}
	return counts, nil
}

func countDecisions(
	ctx context.Context, reader search.Reader, number int64, f search.Filter, borders []int64,
) (*byDecision, error) {
	counts := &byDecision{Verdicts: []verdictCount{}}
	for _, verdict := range []string{decision.Allow, decision.Deny, decision.Ask} {
		f.Decision = verdict
		found, err := search.Count(ctx, reader, number, f, borders)
		if err != nil {
			return nil, damage(err)
		}
		counted := verdictCount{Verdict: verdict, Counts: found}
		for _, n := range found {
			counted.Total += n
		}
		counts.Verdicts = append(counts.Verdicts, counted)
	}
	return counts, nil
}

// span returns the requested period. Its default start is the first record, and its default end is
// a millisecond after the last.
func (s *Searches) span(
	ctx context.Context, by store.Caller, w *searched, r histogramRequest,
) (since, until time.Time, err error) {
	since, until = by.At, by.At
	ends := []struct {
		given string
		index int64
		into  *time.Time
	}{{r.Since, 0, &since}, {r.Until, w.size - 1, &until}}
	for i, end := range ends {
		switch {
		case end.given != "":
			*end.into, err = time.Parse(time.RFC3339, end.given)
		case w.size > 0:
			err = s.Store.Records(ctx, w.log.Chain, end.index, end.index+1, func(found *chain.Record) (err error) {
				*end.into, err = time.Parse(time.RFC3339, found.Timestamp)
				return err
			})
			*end.into = end.into.Add(time.Duration(i) * time.Millisecond)
		}
		if err != nil {
			return since, until, err
		}
	}
	switch {
	case !since.After(until):
	case r.Since == "":
		since = until
	default:
		until = since
	}
	return since, until, nil
}
