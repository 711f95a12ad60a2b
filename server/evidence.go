package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/crypto/keyring"
	"attestd/store"
)

type evidenceRequest struct {
	Index string        `path:"index"`
	Log   store.LogName `query:"log" must:"log"`
	JTI   string        `query:"jti"`
}

// errRotated says that the key was rotated while evidence was gathered, so that parts of it are of
// different keys.
var errRotated = errors.New("the signing key was rotated meanwhile")

// evidence answers with a file that shows whose a record is and where it stands, to whoever checks
// it without a server.
func (s *Server) evidence(ctx context.Context, by store.Caller, r evidenceRequest) (file, error) {
	index, ok := decimal(r.Index)
	if !ok {
		return file{}, fail(http.StatusBadRequest, "index must be a non-negative integer")
	}
	if id, err := uuid.Parse(r.JTI); r.JTI != "" && (err != nil || id.String() != r.JTI || r.Log == store.Control) {
		return file{}, fail(http.StatusBadRequest, "Invalid query parameter: jti must be a UUID in lower case, and goes with the actions alone")
	}
	f, err := settled(func() (*evidence.File, error) { return s.gather(ctx, by, r.Log, index, r.JTI) })
	if err != nil {
		return file{}, err
	}
	text := f.JSON()
	if len(text) > evidence.MaxSize || evidence.Bounded(text) != nil { // no checker would take it
		return file{}, fail(http.StatusUnprocessableEntity, "The record is too large for an evidence file: prove it with GET /v1/proof/{index}")
	}
	return file{"application/json", "no-store", text}, nil
}

// gatherer collects an evidence file. What it signs is all signed with one key, that of the company
// as it was found first.
type gatherer struct {
	*Server
	by      store.Caller // of the company as it was found first
	file    *evidence.File
	highest map[store.LogName]int64 // index of a record that is in the file, the greatest
}

func (s *Server) newGatherer(ctx context.Context, by store.Caller) (*gatherer, error) {
	// its key may have ended since the caller was looked up
	company, err := s.Store.CompanyOfChain(ctx, by.Company.Chain)
	if err != nil {
		return nil, err
	}
	by.Company = company
	return &gatherer{s, by, &evidence.File{CompanyID: company.ID}, make(map[store.LogName]int64)}, nil
}

func (s *Server) gather(ctx context.Context, by store.Caller, name store.LogName, index int64, jti string) (*evidence.File, error) {
	g, err := s.newGatherer(ctx, by)
	if err != nil {
		return nil, err
	}
	g.file.Log = string(name)
	if err := g.record(ctx, g.by.Company.Log(name), index); err != nil {
		return nil, err
	}
	if name == store.Actions {
		if err := g.authority(ctx, index, jti); err != nil {
			return nil, err
		}
	}
	return g.file, g.keys(ctx)
}

// record gathers the record and its proofs in both trees, of the size of the same checkpoint.
func (g *gatherer) record(ctx context.Context, l store.Log, index int64) error {
	head, _, err := g.Store.Tip(ctx, l.Chain)
	if err != nil {
		return err
	}
	if index >= head.Length {
		return fail(http.StatusNotFound, fmt.Sprintf("Index out of bounds: the chain has %d records", head.Length))
	}
	if g.file.Record, err = g.read(ctx, l, index); err != nil {
		return err
	}
	prove, size, err := g.prover(ctx, l, index)
	if err != nil {
		return err
	}
	if g.file.Proof, err = prove(index); err != nil {
		return err
	}
	if head, _, err = g.Store.Tip(ctx, l.Chain); err != nil { // which may have grown
		return err
	}
	g.file.HexProof.Size = size
	g.file.HexProof.Steps, g.file.HexProof.Root, err = chain.ProveAt(ctx, g.Store, l.Chain, index, size, head)
	return err
}

func (g *gatherer) read(ctx context.Context, l store.Log, index int64) (record chain.Record, err error) {
	found := false
	err = g.Store.Records(ctx, l.Chain, index, index+1, func(r *chain.Record) error {
		found, record = true, r.Clone()
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("log %s: record %d is missing on disk", l.ID, index)
	}
	g.highest[l.Name] = max(g.highest[l.Name], index)
	return record, err
}

// prover returns what makes tlog-proofs under one checkpoint that covers the records up to index:
// the newest if it is cosigned, else the newest that is, else the newest.
func (g *gatherer) prover(ctx context.Context, l store.Log, index int64) (prove func(index int64) (string, error), size int64, err error) {
	signed, err := g.checkpoints.covering(ctx, g.by, l, index)
	if err != nil {
		return nil, 0, err
	}
	if !signedBy(string(signed), l.VKey(g.by.Company.Issuer.Public.Key)) {
		return nil, 0, errRotated
	}
	checkpoint, _, err := tlog.ParseSignedCheckpoint(signed)
	if err != nil {
		return nil, 0, err
	}
	lines, witnesses, err := g.Store.Cosignatures(ctx, l.ID, checkpoint.Size)
	if err != nil {
		return nil, 0, err
	}
	older, err := "", error(nil)
	if len(witnesses) == 0 {
		older, err = g.Store.CosignedCheckpoint(ctx, l.ID, index)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, 0, err
	}
	if older != "" {
		if checkpoint, _, err = tlog.ParseSignedCheckpoint([]byte(older)); err != nil {
			return nil, 0, err
		}
		// It may be of a former key. The proofs show that it is of this log, so the present key can
		// sign it too.
		if signed, err = g.by.Company.SignCheckpoint(l, checkpoint.Tree); err != nil {
			return nil, 0, err
		}
		if lines, witnesses, err = g.Store.Cosignatures(ctx, l.ID, checkpoint.Size); err != nil {
			return nil, 0, err
		}
	}
	signed = append(signed, lines...)
	g.cosigned(witnesses)
	return func(index int64) (string, error) {
		hashes, err := tlog.ProveInclusion(ctx, g.Store.LogTree(l), checkpoint.Tree, index)
		return string(tlog.Proof{Index: index, Hashes: hashes, Checkpoint: signed}.Format()), err
	}, checkpoint.Size, nil
}

// authority gathers the control records that bear on an action, and those of the passport that was
// asked about, with its status.
func (g *gatherer) authority(ctx context.Context, index int64, jti string) error {
	a, err := g.Store.Authority(ctx, g.by, index, jti)
	if err != nil {
		return err
	}
	bearing, ofPassport := a.Places()
	g.file.Authority = new(evidence.Authority)
	if jti != "" { // the status after the records, or it might know less than they
		g.file.Passport = &evidence.Passport{JTI: jti}
		status, err := g.ocsp(ctx, g.by, ocspRequest{jti})
		if err == nil {
			g.file.Status, err = json.Marshal(status)
		}
		if err != nil {
			return err
		}
	}
	if len(bearing)+len(ofPassport) == 0 {
		return nil
	}
	prove, _, err := g.prover(ctx, g.by.Company.Control, slices.Max(append(bearing, ofPassport...)))
	if err != nil {
		return err
	}
	if g.file.Authority.Entries, err = g.entries(ctx, bearing, prove); err != nil || jti == "" {
		return err
	}
	g.file.Passport.Entries, err = g.entries(ctx, ofPassport, prove)
	return err
}

func (g *gatherer) entries(ctx context.Context, indices []int64, prove func(index int64) (string, error)) (list []evidence.Entry, err error) {
	for _, index := range indices {
		var e evidence.Entry
		if e.Record, err = g.read(ctx, g.by.Company.Control, index); err != nil {
			return nil, err
		}
		if e.Proof, err = prove(index); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// keys gathers the keys up to the one that has signed the checkpoints. It comes last, so that none
// is missing.
func (g *gatherer) keys(ctx context.Context) error {
	last := g.by.Company.Issuer.Public.Key
	for _, l := range g.by.Company.Logs() {
		origin, ring, err := g.Store.KeyRing(ctx, l.Chain)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(ring, func(k keyring.Key) bool { return k.Public.Equal(last) })
		if at < 0 {
			return fmt.Errorf("log %s: the key that signs is not among its keys", l.ID)
		}
		if at+1 < len(ring) && ring[at+1].From <= g.highest[l.Name] {
			return errRotated // a record is of a key that came later
		}
		g.file.Logs = append(g.file.Logs, evidence.Log{Name: string(l.Name), ID: l.ID, Origin: origin, Keys: ring[:at+1]})
		if l.Name == store.Actions {
			for _, k := range ring[:at+1] {
				g.file.Keys = append(g.file.Keys, k.Public)
			}
		}
	}
	return nil
}

// cosigned adds the witnesses of a checkpoint to those of the file.
func (g *gatherer) cosigned(witnesses []string) {
	for _, vkey := range witnesses {
		if !slices.Contains(g.file.Witnesses, vkey) {
			g.file.Witnesses = append(g.file.Witnesses, vkey)
		}
	}
}

// settled calls gather until no rotation comes between.
func settled[T any](gather func() (T, error)) (T, error) {
	for attempt := 0; ; attempt++ {
		v, err := gather()
		if !errors.Is(err, errRotated) || attempt == 3 {
			return v, err
		}
	}
}
