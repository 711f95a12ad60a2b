package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"attestd/sdk/attestd"
)

const (
	searchWindow = 500       // records in a request to attestd
	searchMost   = 10_000    // records that a search reads; a further search continues
	foundMost    = 100       // records in an answer
	payloadMost  = 16 << 10  // bytes of a payload in an answer
	answerMost   = 256 << 10 // bytes of payloads in an answer
)

// searchRecords reads the log backwards.
func (t tools) searchRecords(ctx context.Context, in searchInput) (any, error) {
	agent, err := t.agent(in.AgentID)
	if err != nil {
		return nil, err
	}
	limit := in.Limit
	switch {
	case limit == 0:
		limit = 20
	case limit < 0 || limit > foundMost:
		return nil, errors.New("limit must be 1 to 100")
	}
	end, err := t.length(ctx)
	if err != nil {
		return nil, err
	}
	if in.Before > 0 {
		end = min(end, in.Before)
	}
	answer := foundRecords{Records: []found{}}
	size := 0
	for last := max(0, end-searchMost); end > last; {
		from := max(last, end-searchWindow)
		var window []attestd.Record
		for r, err := range t.client.Records(ctx, attestd.Range{From: from, Limit: end - from}) {
			if err != nil {
				return nil, err
			}
			if r.Pruned {
				answer.Pruned++ // nothing says whose it is
				continue
			}
			a := r.Payload
			if a.AgentID == agent && (in.ActionType == "" || a.ActionType == in.ActionType) && bytes.Contains(a.Payload, []byte(in.Contains)) {
				window = append(window, r)
			}
		}
		for _, r := range slices.Backward(window) {
			f := found{r.Index, r.Timestamp, r.Payload.ActionType, r.Payload.Payload, len(r.Payload.Payload)}
			if f.Bytes > payloadMost {
				f.Payload = nil
			}
			if size += len(f.Payload); len(answer.Records) == limit || size > answerMost {
				return answer, nil
			}
			answer.Records, answer.Next = append(answer.Records, f), r.Index
		}
		end, answer.Next = from, from
	}
	return answer, nil
}

// length returns the number of records in the log.
func (t tools) length(ctx context.Context) (int64, error) {
	logs, err := t.client.Logs(ctx)
	if err != nil {
		return 0, err
	}
	for _, l := range logs {
		if l.Log == attestd.Actions {
			return l.Size, nil
		}
	}
	return 0, nil
}
