package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"attestd/chain"
	"attestd/store/headfile"
)

// maxPins is of how many chains the memory is kept that the head file has too: some 300 bytes each.
const maxPins = 1 << 14

// pin is what this server knows of a chain: what it has written itself, and what it has seen that
// others have.
type pin struct {
	base headfile.Tree // from what on; the file has it, as far as is known here
	from headfile.Tree // the newest that this server has built on base without a gap
	// the newest of all; where it is not from, that one is still to be proven to be a prefix of it
	to headfile.Tree

	session    int                 // of the connection under which to became known
	checkpoint headfile.Checkpoint // to be written with to
}

// treeOf is the state of a chain in the form of the head file, where a log without records has no
// roots.
func treeOf(h *chain.Head) headfile.Tree {
	if h.Length == 0 {
		return headfile.Tree{}
	}
	return headfile.Tree{Size: h.Length, Root: h.Root, LogRoot: h.LogRoot}
}

// pinOf returns what is known of a chain, of which nothing may have been until now. h.mu is held.
func (h *heads) pinOf(number int64, first headfile.Tree) *pin {
	p := h.pins[number]
	if p == nil {
		if len(h.pins) >= maxPins {
			maps.DeleteFunc(h.pins, func(other int64, _ *pin) bool { return h.due[other] == nil })
		}
		p = &pin{base: first, from: first, to: first, session: h.session}
		h.pins[number] = p
	}
	return p
}

// committed puts down what a batch has added; the goroutine of the log calls it after each commit.
func (h *heads) committed(batch []chain.Extension, external bool) {
	h.mu.Lock()
	h.external = h.external || external
	for i := range batch {
		before, after := treeOf(&batch[i].From), treeOf(&batch[i].Head)
		p := h.pinOf(batch[i].Chain, before)
		if p.to.Size == 0 { // nothing but a checkpoint is known
			p.base, p.from, p.to = before, before, before
		}
		follows := p.to == before
		if p.from == before {
			p.from = after
		}
		if follows || after.Size > p.to.Size {
			p.to, p.session = after, h.session
		}
		h.due[batch[i].Chain] = p
	}
	h.mu.Unlock()
	h.ring()
}

// seen puts down what others have added to chains, as it was read.
func (h *heads) seen(trees map[int64]headfile.Tree) {
	h.mu.Lock()
	for number, tree := range trees {
		p := h.pinOf(number, headfile.Tree{})
		if tree.Size > p.to.Size {
			p.to, p.session = tree, h.session
			h.due[number] = p
		}
	}
	h.mu.Unlock()
	h.ring()
}

// published puts down the checkpoint that was kept last of a chain.
func (h *heads) published(number int64, note string) {
	c, err := parseCheckpoint(note)
	if err != nil {
		return // it is not one of ours, and nothing to hold against a database
	}
	h.mu.Lock()
	p := h.pinOf(number, headfile.Tree{})
	p.checkpoint = c
	h.due[number] = p
	h.mu.Unlock()
	h.ring()
}

// reconnected puts down that the database is written by another connection than before, behind
// which another copy of it may be.
func (h *heads) reconnected() {
	h.mu.Lock()
	h.session++
	h.mu.Unlock()
	h.suspect()
}

// suspect has all that is known compared once more, for a connection was lost. What is read for
// that is read on new connections.
func (h *heads) suspect() {
	h.store.lost.Add(1)
	h.mu.Lock()
	h.external = true
	h.mu.Unlock()
	h.ring()
}

// pinned returns what is known of chains. What is read after that must have it.
func (h *heads) pinned(chains []int64) map[int64]pin {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := make(map[int64]pin, len(chains))
	for _, number := range chains {
		if p := h.pins[number]; p != nil {
			known[number] = *p
		}
	}
	return known
}

// check says whether a head of a chain that was read under the connection of now, to be built on,
// has what was known of it before: nil, a *RolledBackError after which nothing is written, or that
// it could not be found out. A longer head is proven to have it after a lost connection alone; else
// the goroutine of the head file does that in its own time.
func (h *heads) check(ctx context.Context, number int64, known pin, head *chain.Head, log *slog.Logger) error {
	h.mu.Lock()
	session := h.session
	h.mu.Unlock()
	is := treeOf(head)
	if known.to == is || known.to.Size < is.Size && known.session == session {
		return nil
	}
	trees := []headfile.Tree{known.to}
	if known.session != session && known.from != known.to {
		trees = append(trees, known.from)
	}
	for _, tree := range trees {
		b, err := h.store.behindOf(ctx, number, tree, head)
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
		h.due[number] = p
	}
	return nil
}

// shrunk puts down that chains have fewer records than were known of them before, and than anything
// else here may know.
func (h *heads) shrunk(ctx context.Context, before map[int64]int64, log *slog.Logger) error {
	known := h.pinned(slices.Collect(maps.Keys(before)))
	var list []Behind
	for number, size := range before {
		head, _, err := h.store.Tip(ctx, number)
		if errors.Is(err, chain.ErrMissing) {
			head, err = chain.EmptyHead(), nil
		}
		if err != nil {
			return err
		}
		b, err := h.store.behindOf(ctx, number, known[number].to, &head)
		if err == nil && b == nil { // what is gone came after that, and its roots were not read
			b, err = h.store.behindOf(ctx, number, headfile.Tree{Size: size}, &head)
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

// rolledBack stops all writes, for the database has not what was known of it, and has the head file
// keep what that was.
func (h *heads) rolledBack(behind []Behind, log *slog.Logger) error {
	reason := &RolledBackError{behind}
	if h.store.StopWrites(reason) {
		log.Error("nothing is written any more: the database was rolled back", "error", reason)
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
	h.ring()
	return reason
}

// each yields what the file knows, and of the chains of which more is in memory that too, the
// newest first. What is read after each was called must have it.
func (h *heads) each() func(yield func(headfile.Head) error) error {
	h.mu.Lock()
	pins := make(map[int64]pin, len(h.pins))
	for number, p := range h.pins {
		pins[number] = *p
	}
	h.mu.Unlock()
	return func(yield func(headfile.Head) error) error {
		all := func(known headfile.Head, p pin) error {
			for _, tree := range []headfile.Tree{p.to, p.from} {
				if tree.Size > 0 && tree != known.Tree {
					newer := known
					newer.Tree = tree
					if err := yield(newer); err != nil {
						return err
					}
				}
			}
			return nil
		}
		if h.file != nil {
			err := h.file.Each(func(known *headfile.Head) error {
				p := pins[known.Chain]
				delete(pins, known.Chain)
				if err := all(*known, p); err != nil {
					return err
				}
				return yield(*known)
			})
			if err != nil {
				return err
			}
		}
		for number, p := range pins {
			if err := all(headfile.Head{Chain: number}, p); err != nil {
				return err
			}
		}
		return nil
	}
}

// advance writes to the file what has become known, where what the file has is a prefix of it. What
// needs a proof waits for its time.
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
		if h.store.writer.stopped.Load() != nil {
			return nil
		}
		if err := h.write(ctx, number, p.to, p.checkpoint); err != nil {
			return err
		}
		h.written(number, &p)
	}
	return nil
}

// written puts down that the file has a pin as it was.
func (h *heads) written(number int64, was *pin) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.pins[number]
	if p == nil {
		return
	}
	switch {
	case p.from == was.from:
		p.from, p.base = was.to, was.to
	case was.from == was.to: // and more was built on it
		p.base = was.to
	default: // more was built on what was proven to be a prefix of it
		p.base = headfile.Tree{}
	}
	if p.checkpoint == was.checkpoint {
		p.checkpoint = headfile.Checkpoint{}
	}
	if p.to == was.to && !p.checkpoint.Published() {
		delete(h.due, number)
	}
}

// prove says whether the tree of a pin has what the file and this server knew before it. Where it
// does not, all writes are stopped; where that needs a proof whose time has not come, it says no.
func (h *heads) prove(ctx context.Context, turn *proofTurn, number int64, p *pin, log *slog.Logger) (bool, error) {
	known, err := h.file.Head(number)
	if err != nil {
		return false, err
	}
	known.Tree = proven(known.Tree)
	if p.to.Size == 0 { // nothing but a checkpoint has become known
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
	head, _, err := h.store.Tip(ctx, number)
	if err != nil {
		return false, err
	}
	for _, tree := range trees {
		b, err := h.store.behindOf(ctx, number, tree, &head)
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

// behindOf says in what a head that was read of a chain is behind a tree of it that was known; nil
// where it is not.
func (s *Store) behindOf(ctx context.Context, number int64, known headfile.Tree, head *chain.Head) (*Behind, error) {
	l := loggedHead{Head: headfile.Head{Chain: number, Tree: treeOf(head)}}
	company, log, err := s.LogOfChain(ctx, number)
	switch {
	case err == nil:
		l.LogID, err = parseLogID(log.ID)
		l.company, l.companyID, l.name, l.origin = company.Chain, company.ID, log.Name, log.Origin
	case errors.Is(err, ErrNotFound):
		err = nil
		_, l.name = logOf(number)
	}
	if err != nil {
		return nil, err
	}
	k := headfile.Head{Chain: number, LogID: l.LogID, Tree: known}
	why, err := s.whyBehind(ctx, k, l, head)
	if err != nil || why == "" {
		return nil, err
	}
	return &Behind{Company: l.companyID, Log: l.name, Known: k, Found: l.Head, Why: why, company: l.company, origin: l.origin}, nil
}

// seeHeads has the head file know how long chains are that others have extended.
func (s *Store) seeHeads(ctx context.Context, chains []int64) error {
	trees := make(map[int64]headfile.Tree, len(chains))
	err := s.read(ctx, func(c *conn) error {
		return c.each(func(rows *sql.Rows) error {
			var number int64
			var t headfile.Tree
			var root, logRoot []byte
			err := rows.Scan(&number, &t.Size, &root, &logRoot)
			fill(t.Root[:], root)
			fill(t.LogRoot[:], logRoot)
			trees[number] = t
			return err
		}, `SELECT chain, length, root, log_root FROM head WHERE length > 0 AND chain = ANY (?)`, chains)
	})
	if err != nil {
		return err
	}
	s.heads.seen(trees)
	return nil
}
