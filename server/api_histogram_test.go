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
