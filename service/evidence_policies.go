package service

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"attestd/chain"
	"attestd/chain/decision"
	"attestd/chain/evidence"
	"attestd/store"
)

// What a file has of policies at most. A file without them is no less genuine: its decisions are
// not made again.
const (
	maxPolicyChanges = 2_000   // that are looked at
	maxPolicyBytes   = 2 << 20 // of control records
)

// policyClocks is how far the times of the two logs may be apart, as package evidence has it.
const policyClocks = 5 * time.Second

// policyChange is a control record about a policy.
type policyChange struct {
	index int64
	size  int
	body  struct {
		ActionType store.ControlAction
		Payload    struct {
			PolicyID, SHA256, Set string
			Revision              int64
		}
	}
}

// isChange reports whether the control log says what the policies are after it.
func (c *policyChange) isChange() bool {
	return c.body.ActionType == store.PolicyPut || c.body.ActionType == store.PolicyDeleted
}

// policyQuery reads the changes of policies from the first size records of a control log.
type policyQuery struct {
	authorityQuery
	log store.Log
}

// find returns the first or the last change in a part of the log, or nil.
func (q *policyQuery) find(ctx context.Context, from, to int64, last bool) (*policyChange, error) {
	found, err := q.entry(ctx, store.ControlQuery{Subject: store.AboutPolicies, From: from, To: to, Last: last})
	if err != nil || found == nil {
		return nil, err
	}
	record, err := recordAt(ctx, q.view, q.log, found.Index)
	if err != nil {
		return nil, err
	}
	change := &policyChange{index: found.Index, size: len(record.Payload)}
	if err := json.Unmarshal(record.Payload, &change.body); err != nil {
		return nil, fmt.Errorf("%w: control record %d: %w", store.ErrCorrupt, found.Index, err)
	}
	return change, nil
}

// sizeAt returns how many control records there are before a time that is apart from a timestamp.
func (q *policyQuery) sizeAt(ctx context.Context, timestamp string, apart time.Duration) (int64, error) {
	at, err := time.Parse(time.RFC3339, timestamp)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return q.view.SizeAt(ctx, q.company.Control.Chain, q.size, chain.FormatTime(at.Add(apart)))
}

// set returns the indexes of the newest change among the first records, and of those that put the
// policies that are in force after it, ascending. It returns false where they do not make the set
// that the newest one names, or are too many to look at.
func (q *policyQuery) set(ctx context.Context, newest *policyChange) (indexes []int64, ok bool, err error) {
	sums, seen := make(map[string]string), make(map[string]bool)
	size, want := 0, newest.body.Payload.Set
	for n, change := 0, newest; change != nil && change.isChange() && n < maxPolicyChanges; n++ {
		p := &change.body.Payload
		if !seen[p.PolicyID] {
			if seen[p.PolicyID] = true; change.body.ActionType == store.PolicyPut {
				sums[p.PolicyID] = p.SHA256
			}
			if change == newest || change.body.ActionType == store.PolicyPut {
				indexes = append(indexes, change.index)
				size += change.size
			}
			if decision.HashSet(sums) == want {
				slices.Reverse(indexes)
				return indexes, size <= maxPolicyBytes, nil
			}
		}
		if change, err = q.find(ctx, 0, change.index, true); err != nil {
			return nil, false, err
		}
	}
	return nil, false, nil
}

// decided returns the changes that make the policies of a decision that was recorded at a time, and
// the change after them. It returns false where the control log does not say what they were.
func (q *policyQuery) decided(ctx context.Context, d *decision.Decision, timestamp string) (indexes []int64, ok bool, err error) {
	if d.Revision == 0 {
		return nil, false, nil // a set without policies
	}
	end, err := q.sizeAt(ctx, timestamp, policyClocks+time.Millisecond)
	if err != nil {
		return nil, false, err
	}
	next, err := q.find(ctx, end, q.size, false)
	if err != nil {
		return nil, false, err
	}
	newest, err := q.find(ctx, 0, end, true)
	for n := 0; err == nil && newest != nil && newest.isChange() && newest.body.Payload.Revision > d.Revision; n++ {
		if n == maxPolicyChanges {
			return nil, false, nil
		}
		next = newest
		newest, err = q.find(ctx, 0, newest.index, true)
	}
	if err != nil || newest == nil || !newest.isChange() || newest.body.Payload.Revision != d.Revision {
		return nil, false, err
	}
	if indexes, ok, err = q.set(ctx, newest); err == nil && ok && next != nil && next.isChange() {
		indexes = append(indexes, next.index)
	}
	return indexes, ok, err
}

// since returns the changes that make the policies in force after the first records of the log, and
// those between these and an end of which it is not known where. It returns false where there are
// none, or too many, or the control log does not say what the policies were.
func (q *policyQuery) since(ctx context.Context, first, end int64) (base, later []int64, ok bool, err error) {
	newest, err := q.find(ctx, 0, first, true)
	if err != nil {
		return nil, nil, false, err
	}
	revision, size := int64(0), 0
	if newest != nil {
		if base, ok, err = q.set(ctx, newest); err != nil || !ok {
			return nil, nil, false, err
		}
		revision = newest.body.Payload.Revision
	}
	for at := first; ; {
		change, err := q.find(ctx, at, end, false)
		if err != nil {
			return nil, nil, false, err
		}
		if change == nil {
			return base, later, len(base)+len(later) > 0, nil
		}
		revision++
		if size += change.size; !change.isChange() || change.body.Payload.Revision != revision || size > maxPolicyBytes || len(later) == maxPolicyChanges {
			return nil, nil, false, nil
		}
		later = append(later, change.index)
		at = change.index + 1
	}
}

// policies returns what makes the policies by which the file's record was decided; none where it
// holds no decision, or they are left out.
func (g *gatherer) policies(ctx context.Context, size int64) ([]int64, error) {
	d, err := decision.Of(g.file.Record.Payload)
	if err != nil || d == nil || g.leavePoliciesOut {
		return nil, err
	}
	q := g.policyQuery(size)
	indexes, ok, err := q.decided(ctx, d, g.file.Record.Timestamp)
	if err == nil && ok {
		g.file.Policies = new(evidence.Policies)
	}
	return indexes, err
}

func (g *gatherer) policyQuery(size int64) *policyQuery {
	return &policyQuery{authorityQuery{view: g.view, company: g.by.Company, size: size, sameTimeReported: true}, g.by.Company.Control}
}
