package server_test

import (
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"testing"
)

// The counts by agent are those of each agent counted alone, the most first, in any period.
func TestHistogramByAgent(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.company(t, "acme").mix(t, 1, 700)
	random := rand.New(rand.NewPCG(7, 7))
	type bucket struct{ Count int64 }
	type histogram struct {
		Total     int64
		Buckets   []bucket
		Agents    int
		TopAgents []struct {
			AgentID string
			Total   int64
			Counts  []int64
		}
	}
	for range 20 {
		at := func() string { return m.records[random.IntN(len(m.records))].Timestamp }
		q := url.Values{"buckets": {strconv.Itoa(1 + random.IntN(30))}, "since": {at()}, "until": {at()}}
		if q.Get("since") > q.Get("until") {
			q.Del("since")
		}
		var got histogram
		m.do(t, "GET /v1/records/histogram?by=agent&"+q.Encode(), "").status(200).into(&got)
		sum, least := int64(0), got.Total
		for _, agent := range got.TopAgents {
			var alone histogram
			m.do(t, "GET /v1/records/histogram?agent="+url.QueryEscape(agent.AgentID)+"&"+q.Encode(), "").status(200).into(&alone)
			var counts []int64
			for _, b := range alone.Buckets {
				counts = append(counts, b.Count)
			}
			if !slices.Equal(agent.Counts, counts) || agent.Total != alone.Total || agent.Total > least {
				t.Errorf("%v: %s has %v, want %v", q, agent.AgentID, agent.Counts, counts)
			}
			least = agent.Total
			sum += agent.Total
		}
		if sum != got.Total || got.Agents != len(got.TopAgents) {
			t.Errorf("%v: %d records of %d agents, want %d", q, sum, got.Agents, got.Total)
		}
	}
}

// The counts by action are those of each action counted alone, the most first, in any period.
func TestHistogramByAction(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.company(t, "acme").mix(t, 5, 700)
	random := rand.New(rand.NewPCG(8, 8))
	for range 12 {
		since := m.records[random.IntN(len(m.records))].Timestamp
		want := map[string]int64{}
		for _, r := range m.records {
			if r.Timestamp >= since {
				want[r.Payload.ActionType]++
			}
		}
		var got struct {
			Total, Actions int
			TopActions     []struct {
				ActionType string
				Total      int64
			}
		}
		m.do(t, "GET /v1/records/histogram?by=action&since="+since, "").status(200).into(&got)
		least := int64(len(m.records))
		for _, a := range got.TopActions {
			if a.Total != want[a.ActionType] || a.Total > least {
				t.Errorf("since %s: %q has %d after %d, want %d", since, a.ActionType, a.Total, least, want[a.ActionType])
			}
			least = a.Total
		}
		if got.Actions != len(want) || len(got.TopActions) != len(want) {
			t.Errorf("since %s: %d actions, of which %d are named, want %d", since, got.Actions, len(got.TopActions), len(want))
		}
	}
}
