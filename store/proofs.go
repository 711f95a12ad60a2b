package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/headfile"
	"attestd/store/ledger"
)

const (
	// proofs use one part in proofShare of their goroutine's time, so that appends have theirs
	proofShare   = 50
	proofRest    = time.Second
	maxProofRest = time.Minute
	maxProofTurn = 2 * time.Second // the remaining proofs then wait for the next round
)

// proofPace limits the rate of the proofs that the head file needs of chains that other servers
// write too. Trees that wait for a proof stay in memory.
type proofPace struct {
	next    time.Time // earliest time of the next round
	waiting bool      // a tree waits for a proof
}

// proofTurn is one round of proofs. It makes none if the time of the round has not come.
type proofTurn struct {
	begun time.Time
	open  bool
	taken bool
	left  bool
}

// begin begins a round. The last round does not wait for its time.
func (p *proofPace) begin(now time.Time, last bool) *proofTurn {
	return &proofTurn{begun: now, open: last || !now.Before(p.next)}
}

// take reports whether a proof may be made now.
func (t *proofTurn) take() bool {
	t.open = t.open && time.Since(t.begun) < maxProofTurn
	t.taken = t.taken || t.open
	t.left = t.left || !t.open
	return t.open
}

func (p *proofPace) end(t *proofTurn) {
	if p.waiting = t.left; t.taken {
		now := time.Now()
		p.next = now.Add(min(max(proofRest, proofShare*now.Sub(t.begun)), maxProofRest))
	}
}

// rest returns how long waiting trees must still wait, or 0 if none waits.
func (p *proofPace) rest(now time.Time) time.Duration {
	if !p.waiting {
		return 0
	}
	return max(time.Millisecond, p.next.Sub(now))
}

// check verifies that the head of a chain, which was read on the current connection and is to be
// extended, includes what was known of the chain before. It returns nil, a *RolledBackError after
// which nothing is written, or the error that prevented the check. A longer head is checked by a
// proof only after a lost connection; otherwise the goroutine of the head file makes the proof
// later. Without a head file a lost connection alone is a reason to check: what an intruder changes
// meanwhile concerns one chain, of which each record is verified.
func (h *heads) check(ctx context.Context, number int64, known pin, head *chain.Head, log *slog.Logger) error {
	session := h.session.Load()
	is := treeOf(head)
	if known.to == is || known.session == session && (known.to.Size < is.Size || !h.hasFile()) {
		return nil
	}
	trees := []headfile.Tree{known.to}
	if known.session != session && known.from != known.to {
		trees = append(trees, known.from)
	}
	for _, tree := range trees {
		b, err := h.rollback.behindOf(ctx, number, tree, head)
		if err != nil {
			return err
		}
		if b != nil {
			return h.rolledBack([]Behind{*b}, log)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.pins[number]; p != nil && p.to == known.to {
		p.to, p.session = is, session
		if p.from == known.from {
			p.from = is
		}
		h.toWrite(number, p)
	}
	return nil
}

// shrunk handles chains that have fewer records than before, which may be fewer than any other
// state here knows.
func (h *heads) shrunk(ctx context.Context, before map[int64]int64, log *slog.Logger) error {
	known := h.pinned(slices.Collect(maps.Keys(before)))
	var list []Behind
	for number, size := range before {
		head, _, err := h.rollback.db.now.Tip(ctx, number)
		if errors.Is(err, chain.ErrMissing) {
			head, err = chain.EmptyHead(), nil
		}
		if err != nil {
			return err
		}
		b, err := h.rollback.behindOf(ctx, number, known[number].to, &head)
		// the missing records are newer than the pin, and their roots were not read
		if err == nil && b == nil {
			b, err = h.rollback.behindOf(ctx, number, headfile.Tree{Size: size}, &head)
		}
		if err != nil {
			return err
		}
		if b != nil {
			list = append(list, *b)
		}
	}
	if len(list) > 0 {
		h.rolledBack(list, log)
	}
	return nil
}

// rolledBack stops all writes, because the database lacks what was known of it, and makes the head
// file store what was known.
func (h *heads) rolledBack(behind []Behind, log *slog.Logger) error {
	reason := &RolledBackError{behind}
	if h.rollback.db.StopWrites(reason) {
		next := "the right database, or attestd accept-rollback"
		if !h.hasFile() {
			next = "the right database, or a restart, which forgets this: there is no head file (--heads)"
		}
		log.Error("nothing is written any more: the database was rolled back", "error", reason, "remedy", next)
	}
	var chains []int64
	h.mu.Lock()
	for _, b := range behind {
		chains = append(chains, b.Known.Chain)
		if tree := proven(b.Known.Tree); tree.Size > h.lost[b.Known.Chain].Size {
			h.lost[b.Known.Chain] = tree
		}
	}
	h.mu.Unlock()
	h.wentBack(chains)
	h.wake.Set()
	return reason
}

// advance writes the known trees to the file, if the file's trees are prefixes of them. Those that
// need a proof wait for their time.
func (h *heads) advance(ctx context.Context, ending bool, log *slog.Logger) error {
	h.mu.Lock()
	due := make(map[int64]pin, len(h.due))
	for number, p := range h.due {
		due[number] = *p
	}
	h.mu.Unlock()
	turn := h.proofs.begin(time.Now(), ending)
	defer h.proofs.end(turn)
	for number, p := range due {
		proven, err := h.prove(ctx, turn, number, &p, log)
		if err != nil {
			return err
		}
		if !proven {
			continue
		}
		if h.rollback.db.Stopped() != nil {
			return nil
		}
		if err := h.write(ctx, number, p.to, p.checkpoint); err != nil {
			return err
		}
		h.written(number, &p)
	}
	return nil
}

// prove reports whether the tree of a pin extends what the file and this server knew before. If it
// does not, all writes stop. prove also returns false if a proof is needed and its time has not
// come.
func (h *heads) prove(ctx context.Context, turn *proofTurn, number int64, p *pin, log *slog.Logger) (bool, error) {
	known, err := h.file.Head(number)
	if err != nil {
		return false, err
	}
	known.Tree = proven(known.Tree)
	if p.to.Size == 0 { // only a checkpoint is known
		p.base, p.from, p.to = known.Tree, known.Tree, known.Tree
	}
	var trees []headfile.Tree
	if p.from != p.to {
		trees = append(trees, p.to, p.from)
	}
	if known.Tree != p.base && known.Tree != p.from && known.Tree != p.to {
		trees = append(trees, known.Tree)
	}
	trees = slices.DeleteFunc(trees, func(t headfile.Tree) bool { return t.Size == 0 })
	if len(trees) == 0 {
		return true, nil
	}
	if !turn.take() {
		return false, nil
	}
	head, _, err := h.rollback.db.now.Tip(ctx, number)
	if err != nil {
		return false, err
	}
	for _, tree := range trees {
		b, err := h.rollback.behindOf(ctx, number, tree, &head)
		if err != nil {
			return false, fmt.Errorf("compare chain %d with what was known: %w", number, err)
		}
		if b != nil {
			h.rolledBack([]Behind{*b}, log)
			return false, nil
		}
	}
	return true, nil
}

// behindOf describes in what the head of a chain is behind a known tree of it, or returns nil.
func (s Rollback) behindOf(ctx context.Context, number int64, known headfile.Tree, head *chain.Head) (*Behind, error) {
	b := Behind{
		Known: headfile.Head{Chain: number, Tree: known},
		Found: headfile.Head{Chain: number, Tree: treeOf(head)},
	}
	_, b.Log = db.LogOf(number)
	company, log, err := s.companies.LogOfChain(ctx, number)
	switch {
	case err == nil:
		b.company, b.Company, b.Log, b.origin = company.Chain, company.ID, log.Name, log.Origin
		b.Found.LogID, err = ledger.ParseLogID(log.ID)
	case errors.Is(err, db.ErrNotFound):
		err = nil
	}
	if err != nil {
		return nil, err
	}
	b.Known.LogID = b.Found.LogID
	if b.Why, err = s.why(ctx, b.Known, &b.Found, head); err != nil || b.Why == "" {
		return nil, err
	}
	return &b, nil
}
