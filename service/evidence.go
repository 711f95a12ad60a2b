package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/crypto/statement"
	"attestd/store"
)

// Evidence makes files that prove whose records are and where they are in the log, to a checker
// without a server. All parts are of one moment and signed with one key, that of the company at
// that moment.
type Evidence struct {
	Store       *store.Store
	Checkpoints *Checkpoints
}

// Authority says what the control log knows of whether an action was allowed when it happened; jti
// is a passport to ask for as well, "" for none.
func (e *Evidence) Authority(ctx context.Context, by store.Caller, index int64, jti string) (a Authority, err error) {
	err = e.Store.Snapshot(ctx, func(v *store.View) error {
		control, _, err := v.Tip(ctx, by.Company.Control.Chain)
		if err != nil {
			return err
		}
		record, err := recordAt(ctx, v, by.Company.Actions, index)
		if errors.Is(err, store.ErrNotFound) {
			return refuse(NotFound, "Index out of bounds: the chain has no such record")
		}
		if err == nil {
			err = PrunedError(ctx, v, by.Company, &record)
		}
		if err != nil {
			return err
		}
		q := authorityQuery{view: v, company: by.Company, size: control.Length}
		a, err = q.answer(ctx, &record, jti)
		return err
	})
	return a, err
}

// File returns the evidence file of a record; jti is a passport to tell of as well, "" for none.
func (e *Evidence) File(ctx context.Context, by store.Caller, name store.LogName, index int64, jti string) ([]byte, error) {
	l := by.Company.Log(name)
	head, _, err := e.Store.Tip(ctx, l.Chain)
	if err != nil {
		return nil, err
	}
	if index >= head.Length {
		return nil, refuse(NotFound, fmt.Sprintf("Index out of bounds: the chain has %d records", head.Length))
	}
	control, _, err := e.Store.Tip(ctx, by.Company.Control.Chain)
	if err != nil {
		return nil, err
	}
	g := gatherer{by: by}
	gather := func(v *store.View) error {
		if err := g.begin(ctx, v); err != nil {
			return err
		}
		g.file.Log = string(name)
		if err := g.record(ctx, l, index); err != nil {
			return err
		}
		if name == store.Control {
			return nil
		}
		return g.authority(ctx, control.Length, jti)
	}
	if _, err := e.Checkpoints.Covering(ctx, by, l, index); err != nil {
		return nil, err
	}
	err = e.Store.Snapshot(ctx, gather)
	if unpublished := (*notPublishedError)(nil); errors.As(err, &unpublished) {
		// which of the control records bear on the action is known now, and they are no more than
		// the first control.Length
		if _, err := e.Checkpoints.Covering(ctx, by, unpublished.log, unpublished.index); err != nil {
			return nil, err
		}
		err = e.Store.Snapshot(ctx, gather)
	}
	if err != nil {
		return nil, err
	}
	text := g.file.JSON()
	if !isTaken(text) && (g.file.Policies != nil || g.file.Approvals != nil) {
		g.leavePoliciesOut = true
		if err := e.Store.Snapshot(ctx, gather); err != nil {
			return nil, err
		}
		text = g.file.JSON()
	}
	if !isTaken(text) {
		return nil, refuse(TooLarge, "The record is too large for an evidence file: prove it with GET /v1/proof/{index}")
	}
	return text, nil
}

// isTaken reports whether a checker takes a file.
func isTaken(text []byte) bool {
	return len(text) <= evidence.MaxSize && evidence.Bounded(text) == nil
}

// gatherer collects an evidence file, or the header of a report, from one view. What it signs is of
// trees that were published before, so that nothing is signed here that may still be undone, also
// where the database was rolled back and nothing more is published.
type gatherer struct {
	by   store.Caller // of the company as it is in the view
	view *store.View
	file *evidence.File

	leavePoliciesOut bool // the file would be too large with them, and with approvals
}

// notPublishedError says that no checkpoint that was published of a log covers a record.
type notPublishedError struct {
	log   store.Log
	index int64
}

func (e *notPublishedError) Error() string {
	return fmt.Sprintf("log %s: no checkpoint covers record %d", e.log.ID, e.index)
}

// FileOf returns an evidence file that has only the keys of both logs of a company.
func FileOf(ctx context.Context, v *store.View, c *store.Company) (*evidence.File, error) {
	f := &evidence.File{CompanyID: c.ID}
	for _, l := range c.Logs() {
		origin, ring, err := v.KeyRing(ctx, l.Chain)
		if err != nil {
			return nil, err
		}
		f.Logs = append(f.Logs, evidence.Log{Name: string(l.Name), ID: l.ID, Origin: origin, Keys: ring})
		if l.Name == store.Actions {
			for _, k := range ring {
				f.Keys = append(f.Keys, k.Public)
			}
		}
	}
	return f, nil
}

// begin begins a file, in a view, with the keys of both logs.
func (g *gatherer) begin(ctx context.Context, v *store.View) (err error) {
	g.view = v
	if g.file, err = FileOf(ctx, v, g.by.Company); err != nil {
		return err
	}
	if last := len(g.file.Keys) - 1; last >= 0 && g.file.Keys[last].Equal(g.by.Company.Issuer.Public.Key) {
		return nil
	}
	// its key has ended since the caller was looked up
	company, err := v.CompanyNow(ctx, g.by.Company.Chain)
	g.by.Company = company
	return err
}

// published returns the last checkpoint of a log that was published, which must cover the records
// up to index: *notPublishedError.
func (g *gatherer) published(ctx context.Context, l store.Log, index int64) (checkpoint tlog.Checkpoint, note string, err error) {
	size, note, err := g.view.Checkpoint(ctx, l.ID)
	if err == nil && (note == "" || index >= size) {
		err = &notPublishedError{l, index}
	}
	if err != nil {
		return checkpoint, "", err
	}
	checkpoint, _, err = tlog.ParseSignedCheckpoint([]byte(note))
	return checkpoint, note, err
}

// record gathers the record and its proofs in both trees, of the size of the same checkpoint.
func (g *gatherer) record(ctx context.Context, l store.Log, index int64) (err error) {
	if g.file.Record, err = recordAt(ctx, g.view, l, index); err != nil {
		return err
	}
	if err := PrunedError(ctx, g.view, g.by.Company, &g.file.Record); err != nil {
		return err
	}
	prove, size, err := g.prover(ctx, l, index)
	if err != nil {
		return err
	}
	if g.file.Proof, err = prove(index); err != nil {
		return err
	}
	head, _, err := g.view.Tip(ctx, l.Chain)
	if err != nil {
		return err
	}
	g.file.HexProof.Size = size
	g.file.HexProof.Steps, g.file.HexProof.Root, err = chain.ProveAt(ctx, g.view, l.Chain, index, size, head)
	return err
}

// signedTree is a tree with its signed checkpoint, and the cosignatures that are known of it.
type signedTree struct {
	tree       tlog.Tree
	checkpoint []byte
}

// prover returns what makes tlog-proofs in the tree of proverAt.
func (g *gatherer) prover(ctx context.Context, l store.Log, index int64) (prove func(index int64) (string, error), size int64, err error) {
	at, err := g.proverAt(ctx, l, index)
	if err != nil {
		return nil, 0, err
	}
	prover := tlog.NewProver(ctx, g.view.LogTree(l), at.tree)
	return func(index int64) (string, error) {
		hashes, err := prover.Prove(index)
		return string(tlog.Proof{Index: index, Hashes: hashes, Checkpoint: at.checkpoint}.Format()), err
	}, at.tree.Size, nil
}

// proverAt returns one tree that covers the records up to index: the newest that was published if
// it is cosigned, else the newest that is, else the newest. It is signed with the key of the view,
// whichever key it was published under: the proofs show that it is of this log.
func (g *gatherer) proverAt(ctx context.Context, l store.Log, index int64) (at signedTree, err error) {
	checkpoint, note, err := g.published(ctx, l, index)
	if err != nil {
		return at, err
	}
	lines, witnesses, err := g.view.Cosignatures(ctx, l.ID, checkpoint.Size)
	if err != nil {
		return at, err
	}
	if len(witnesses) == 0 {
		older, err := g.view.CosignedCheckpoint(ctx, l.ID, index)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return at, err
		}
		if older != "" {
			note = older
			if checkpoint, _, err = tlog.ParseSignedCheckpoint([]byte(note)); err != nil {
				return at, err
			}
			if lines, witnesses, err = g.view.Cosignatures(ctx, l.ID, checkpoint.Size); err != nil {
				return at, err
			}
		}
	}
	signed := []byte(note)
	if !SignedBy(note, l.VKey(g.by.Company.Issuer.Public.Key)) {
		if signed, err = g.by.Company.SignCheckpoint(l, checkpoint.Tree); err != nil {
			return at, err
		}
	}
	g.cosigned(witnesses)
	return signedTree{checkpoint.Tree, append(signed, lines...)}, nil
}

// authority gathers the control records that bear on the action, and those of the passport that was
// asked about, with its status. It looks at the first size of them.
func (g *gatherer) authority(ctx context.Context, size int64, jti string) error {
	q := authorityQuery{view: g.view, company: g.by.Company, size: size}
	a, err := q.answer(ctx, &g.file.Record, jti)
	if err != nil {
		return err
	}
	var ofKey []int64
	if a.Statement != nil {
		g.file.AgentKey = new(evidence.AgentKey)
		if ofKey, err = g.keyRecords(ctx, a.Statement.KID, size); err != nil {
			return err
		}
	}
	bearing, ofPassport := a.places()
	g.file.Authority = new(evidence.Authority)
	if jti != "" {
		g.file.Passport = &evidence.Passport{JTI: jti}
		p, err := g.view.Passport(ctx, g.by, jti)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		status, err := newStatus(g.by, jti, p, err == nil)
		if err != nil {
			return err
		}
		if g.file.Status, err = json.Marshal(status); err != nil {
			return err
		}
	}
	ofPolicies, err := g.policies(ctx, size)
	if err != nil {
		return err
	}
	ofApprovals, err := g.approvals(ctx, size)
	if err != nil {
		return err
	}
	deciding, err := g.passports(ctx, size)
	if err != nil {
		return err
	}
	all := slices.Concat(bearing, ofPassport, ofKey, ofPolicies, ofApprovals, deciding)
	if len(all) == 0 {
		return nil
	}
	prove, _, err := g.prover(ctx, g.by.Company.Control, slices.Max(all))
	if err != nil {
		return err
	}
	if a.Statement != nil {
		if g.file.AgentKey.Entries, err = g.entries(ctx, ofKey, prove); err != nil {
			return err
		}
	}
	if g.file.Policies != nil {
		if g.file.Policies.Entries, err = g.entries(ctx, ofPolicies, prove); err != nil {
			return err
		}
	}
	if g.file.Approvals != nil {
		if g.file.Approvals.Entries, err = g.entries(ctx, ofApprovals, prove); err != nil {
			return err
		}
	}
	if g.file.Passports != nil {
		if g.file.Passports.Entries, err = g.entries(ctx, deciding, prove); err != nil {
			return err
		}
	}
	if g.file.Authority.Entries, err = g.entries(ctx, bearing, prove); err != nil || jti == "" {
		return err
	}
	g.file.Passport.Entries, err = g.entries(ctx, ofPassport, prove)
	return err
}

// keyRecords finds the control records of a key of an agent, and of those from which it follows by
// endorsements, among the first size of them; in their order.
func (g *gatherer) keyRecords(ctx context.Context, thumbprint string, size int64) (indices []int64, err error) {
	q := authorityQuery{view: g.view, company: g.by.Company, size: size}
	for before := size; thumbprint != ""; {
		subject := store.AboutAgentKey(thumbprint)
		enrolled, err := q.first(ctx, subject, 0, store.AgentKeyEnrolled)
		if err != nil {
			return nil, err
		}
		// a checker says that the file is not complete
		if enrolled == nil || enrolled.Index >= before {
			break
		}
		before = enrolled.Index
		indices = append(indices, enrolled.Index)
		// the first says when, and the last since when the key was in other hands
		for _, isLast := range []bool{false, true} {
			revoked, err := q.entry(ctx, store.ControlQuery{Subject: subject, To: size, Action: store.AgentKeyRevoked, Last: isLast})
			if err != nil {
				return nil, err
			}
			if revoked != nil && !slices.Contains(indices, revoked.Index) {
				indices = append(indices, revoked.Index)
			}
		}
		record, err := recordAt(ctx, g.view, g.by.Company.Control, enrolled.Index)
		if err != nil {
			return nil, err
		}
		if thumbprint, err = endorserOf(&record); err != nil {
			return nil, err
		}
	}
	slices.Sort(indices)
	return indices, nil
}

// endorserOf is the thumbprint of the key that has signed for the one that a control record enrols;
// "" for none.
func endorserOf(r *chain.Record) (string, error) {
	var body struct{ Payload struct{ Endorsement string } }
	err := json.Unmarshal(r.Payload, &body)
	if err != nil || body.Payload.Endorsement == "" {
		return "", err
	}
	e, err := statement.ParseEndorsement(body.Payload.Endorsement)
	if err != nil {
		return "", fmt.Errorf("%w: the endorsement of control record %d: %w", store.ErrCorrupt, r.Index, err)
	}
	return e.KeyID, nil
}

func (g *gatherer) entries(ctx context.Context, indices []int64, prove func(index int64) (string, error)) (list []evidence.Entry, err error) {
	for _, index := range indices {
		var e evidence.Entry
		if e.Record, err = recordAt(ctx, g.view, g.by.Company.Control, index); err != nil {
			return nil, err
		}
		if e.Proof, err = prove(index); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// cosigned adds the witnesses of a checkpoint to those of the file.
func (g *gatherer) cosigned(witnesses []string) {
	for _, vkey := range witnesses {
		if !slices.Contains(g.file.Witnesses, vkey) {
			g.file.Witnesses = append(g.file.Witnesses, vkey)
		}
	}
}
