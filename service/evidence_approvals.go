package service

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"attestd/chain"
	"attestd/chain/approval"
	"attestd/chain/decision"
	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/store"
)

// What a file has of approvals at most. A file without them is no less genuine: nothing in it shows
// who gave them.
const (
	maxApprovalRecords = 2_000 // that are looked at, of one approval
	maxUsesBefore      = 16    // of one approval, that are in the file
	maxApprovals       = 200   // of a session
	// records of a session that are looked at for approvals
	maxSessionApprovals = 20_000
	maxApprovalBytes    = 2 << 20 // of records
)

// approvalQuery collects what shows that people approved what some records did. It reads the first
// records of the control log alone.
type approvalQuery struct {
	authorityQuery
	requests map[int64]evidence.Entry // of actions, without their proofs
	control  map[int64]bool
	seen     map[string]bool
	bytes    int // of the records
}

func (g *gatherer) approvalQuery(size int64) *approvalQuery {
	q := authorityQuery{view: g.view, company: g.by.Company, size: size, sameTimeReported: true}
	return &approvalQuery{authorityQuery: q, requests: make(map[int64]evidence.Entry), control: make(map[int64]bool), seen: make(map[string]bool)}
}

// approvalEvent is a control record about an approval, as far as it says which others belong to it.
type approvalEvent struct {
	ActionType store.ControlAction
	Payload    struct {
		Object       json.RawMessage
		CredentialID string
		Index        int64
	}
}

// approvalOf returns the approval by which a record was allowed, "" for none.
func approvalOf(r *chain.Record) (string, error) {
	d, err := decision.Of(r.Payload)
	if err != nil || d == nil || d.Verdict != decision.Allow {
		return "", err
	}
	return d.Approval, nil
}

// add adds what belongs to the approval of a record. It returns false where the logs do not have
// it, or it is too much.
func (q *approvalQuery) add(ctx context.Context, id string, index int64) (ok bool, err error) {
	subject := store.AboutApproval(id)
	var uses []int64
	for from, n := int64(0), 0; n < maxApprovalRecords; n++ {
		found, err := q.first(ctx, subject, from, "")
		if err != nil || found == nil {
			return false, err
		}
		from = found.Index + 1
		record, err := q.take(ctx, found.Index)
		if err != nil {
			return false, err
		}
		var e approvalEvent
		if err := json.Unmarshal(record.Payload, &e); err != nil {
			return false, fmt.Errorf("%w: control record %d: %w", store.ErrCorrupt, found.Index, err)
		}
		switch e.ActionType {
		case store.ApprovalUsed:
			if uses = append(uses, found.Index); e.Payload.Index != index {
				continue
			}
			for _, use := range uses[max(0, len(uses)-1-maxUsesBefore):] {
				q.control[use] = true
			}
			return q.bytes <= maxApprovalBytes, q.people(ctx, found.Index)
		case store.ApprovalGranted:
			o, err := approval.Parse(e.Payload.Object)
			if err != nil {
				return false, fmt.Errorf("%w: control record %d: %w", store.ErrCorrupt, found.Index, err)
			}
			if ok, err := q.granted(ctx, o, e.Payload.CredentialID, found.Index); err != nil || !ok {
				return false, err
			}
		}
		q.control[found.Index] = true
	}
	return false, nil
}

// take reads a control record, and counts its size once.
func (q *approvalQuery) take(ctx context.Context, index int64) (chain.Record, error) {
	record, err := recordAt(ctx, q.view, q.company.Control, index)
	if !q.control[index] {
		q.bytes += len(record.Payload)
	}
	return record, err
}

// granted adds the request that a person has approved, and the passkey with which.
func (q *approvalQuery) granted(ctx context.Context, o *approval.Object, credential string, at int64) (ok bool, err error) {
	if _, is := q.requests[o.Index]; !is {
		record, err := recordAt(ctx, q.view, q.company.Actions, o.Index)
		if err != nil || record.IsPruned() {
			return false, err
		}
		q.bytes += len(record.Payload)
		q.requests[o.Index] = evidence.Entry{Record: record}
	}
	for _, action := range []store.ControlAction{store.PasskeyEnrolled, store.PasskeyRevoked} {
		found, err := q.first(ctx, store.AboutPasskey(credential), 0, action)
		if err != nil || found == nil && action == store.PasskeyEnrolled {
			return false, err
		}
		if found != nil {
			q.control[found.Index] = true
		}
	}
	q.seen[o.Person] = true
	return true, q.person(ctx, o.Person, at)
}

// people adds what the control log says of those who approved, as it was at a use.
func (q *approvalQuery) people(ctx context.Context, at int64) error {
	for person := range q.seen {
		if err := q.person(ctx, person, at); err != nil {
			return err
		}
	}
	return nil
}

// person adds the last record of a change of a person before an index.
func (q *approvalQuery) person(ctx context.Context, id string, before int64) error {
	last := int64(-1)
	for _, action := range []store.ControlAction{store.PersonCreated, store.PersonChanged, store.PersonDeleted} {
		found, err := q.entry(ctx, store.ControlQuery{Subject: store.AboutPerson(id), To: before, Action: action, Last: true})
		if err != nil {
			return err
		}
		if found != nil {
			last = max(last, found.Index)
		}
	}
	if last >= 0 {
		q.control[last] = true
	}
	return nil
}

// records returns the indexes of the control records, ascending.
func (q *approvalQuery) records() []int64 {
	if q == nil {
		return nil
	}
	indexes := make([]int64, 0, len(q.control))
	for index := range q.control {
		indexes = append(indexes, index)
	}
	slices.Sort(indexes)
	return indexes
}

// prove returns the requests with their proofs.
func (q *approvalQuery) prove(prove func(index int64) (string, error)) (list []evidence.Entry, err error) {
	for _, e := range q.requests {
		if e.Proof, err = prove(e.Record.Index); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b evidence.Entry) int { return int(a.Record.Index - b.Record.Index) })
	return list, nil
}

// approvals returns the control records of the approval by which the file's record was allowed, and
// puts the requests into the file; none where it was allowed without one, or they are left out.
func (g *gatherer) approvals(ctx context.Context, size int64) ([]int64, error) {
	id, err := approvalOf(&g.file.Record)
	if err != nil || id == "" || g.leavePoliciesOut {
		return nil, err
	}
	q := g.approvalQuery(size)
	ok, err := q.add(ctx, id, g.file.Record.Index)
	if err != nil || !ok {
		return nil, err
	}
	prove, _, err := g.prover(ctx, g.by.Company.Actions, g.file.Record.Index)
	if err != nil {
		return nil, err
	}
	g.file.Approvals = new(evidence.Approvals)
	g.file.Approvals.Requests, err = q.prove(prove)
	return q.records(), err
}

// sessionApprovals collects the approvals by which records of a session were allowed, and returns
// nil where there are none, or too much to look at.
func (g *gatherer) sessionApprovals(ctx context.Context, f *SessionFile, size int64) (*approvalQuery, error) {
	q, count := g.approvalQuery(size), 0
	if len(f.records) > maxSessionApprovals {
		return nil, nil
	}
	for rest := f.records; len(rest) > 0; {
		records, err := f.batch(ctx, rest)
		if err != nil {
			return nil, err
		}
		for i := range records {
			id, err := approvalOf(&records[i])
			if err != nil {
				return nil, err
			}
			if id == "" {
				continue
			}
			count++
			if ok, err := q.add(ctx, id, records[i].Index); err != nil || !ok || count > maxApprovals {
				return nil, err
			}
		}
		rest = rest[len(records):]
	}
	if count == 0 {
		return nil, nil
	}
	return q, nil
}

// proveApprovals puts the approvals of a session into its file, where what asked for them is below
// its checkpoint at.
func (g *gatherer) proveApprovals(ctx context.Context, f *SessionFile, at signedTree, q *approvalQuery, control func(int64) (string, error)) (err error) {
	held, prover := new(evidence.Approvals), tlog.NewProver(ctx, g.view.LogTree(f.log), at.tree)
	held.Requests, err = q.prove(func(index int64) (string, error) {
		hashes, err := prover.Prove(index)
		return string(tlog.Proof{Index: index, Hashes: hashes, Checkpoint: at.checkpoint}.Format()), err
	})
	if err == nil {
		held.Entries, err = g.entries(ctx, q.records(), control)
	}
	g.file.Approvals = held
	return err
}
