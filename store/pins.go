package store

import (
	"context"
	"database/sql"
	"log/slog"
	"maps"
	"slices"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/headfile"
	"attestd/store/postgres"
)

// maxPins bounds the number of chains in memory that the head file has too, at about 300 bytes
// each.
const maxPins = 1 << 14

// pin is what this server knows of a chain, from its own writes and from those of others.
type pin struct {
	base headfile.Tree // known prefix; as far as this server knows, the file has it
	from headfile.Tree // newest tree that this server has built on base without a gap
	// newest known tree; if it is not from, a proof must show that from is a prefix of it
	to headfile.Tree

	session    int64               // connection from which to was learned
	checkpoint headfile.Checkpoint // to be written together with to
}

// treeOf returns the state of a chain in the form of the head file, where a log without records has
// no roots.
func treeOf(h *chain.Head) headfile.Tree {
	if h.Length == 0 {
		return headfile.Tree{}
	}
	return headfile.Tree{Size: h.Length, Root: h.Root, LogRoot: h.LogRoot}
}

// pinOf returns the pin of a chain, and creates it with the tree first if there is none. The caller
// MUST hold h.mu.
func (h *heads) pinOf(number int64, first headfile.Tree) *pin {
	p := h.pins[number]
	if p == nil {
		if len(h.pins) >= maxPins {
			h.forget()
		}
		p = &pin{base: first, from: first, to: first, session: h.session.Load()}
		h.pins[number] = p
	}
	return p
}

// forget makes room for a pin. The file has what it removes; without one, it removes one pin. The
// caller MUST hold h.mu.
func (h *heads) forget() {
	for other := range h.pins {
		if h.due[other] == nil {
			delete(h.pins, other)
			if !h.hasFile() {
				return
			}
		}
	}
}

// toWrite records that the file is to have a pin. The caller MUST hold h.mu.
func (h *heads) toWrite(number int64, p *pin) {
	if h.hasFile() {
		h.due[number] = p
	}
}

// Committed records what a batch has added. The goroutine of the log calls it after each commit.
func (h *heads) Committed(batch []chain.Extension, external bool) {
	if external {
		h.external.Store(true)
	}
	h.mu.Lock()
	for i := range batch {
		before, after := treeOf(&batch[i].From), treeOf(&batch[i].Head)
		p := h.pinOf(batch[i].Chain, before)
		if p.to.Size == 0 { // only a checkpoint is known
			p.base, p.from, p.to = before, before, before
		}
		follows := p.to == before
		if p.from == before {
			p.from = after
		}
		if follows || after.Size > p.to.Size {
			p.to, p.session = after, h.session.Load()
		}
		h.toWrite(batch[i].Chain, p)
	}
	h.mu.Unlock()
	if h.hasFile() {
		h.wake.Set()
	}
}

// extended records that other servers have extended a chain, whose tree must be read.
func (h *heads) extended(number int64) {
	h.mu.Lock()
	if len(h.unread) < maxPins {
		h.unread[number] = true
	}
	h.mu.Unlock()
	h.wake.Set()
}

// readExtended reads the trees of chains that other servers have extended.
func (h *heads) readExtended(ctx context.Context) error {
	h.mu.Lock()
	unread := h.unread
	h.unread = map[int64]bool{}
	h.mu.Unlock()
	if len(unread) == 0 {
		return nil
	}
	err := h.rollback.db.Read(ctx, func(c *db.Conn) error {
		return c.Each(func(rows *sql.Rows) error {
			var number int64
			var t headfile.Tree
			var root, logRoot []byte
			if err := rows.Scan(&number, &t.Size, &root, &logRoot); err != nil {
				return err
			}
			db.FillHash(t.Root[:], root)
			db.FillHash(t.LogRoot[:], logRoot)
			h.mu.Lock()
			defer h.mu.Unlock()
			if p := h.pinOf(number, headfile.Tree{}); t.Size > p.to.Size {
				p.to, p.session = t, h.session.Load()
				h.toWrite(number, p)
			}
			return nil
		}, `SELECT chain, length, root, log_root FROM head WHERE length > 0
			AND chain = ANY (?)`, slices.Collect(maps.Keys(unread)))
	})
	if err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		maps.Copy(h.unread, unread)
	}
	return err
}

// published records the last stored checkpoint of a chain.
func (h *heads) published(number int64, note string) {
	if !h.hasFile() {
		return // the tree is that of the head, which committed and extended record
	}
	c, err := parseCheckpoint(note)
	if err != nil {
		return // it is foreign, and cannot be compared with a database
	}
	h.mu.Lock()
	p := h.pinOf(number, headfile.Tree{})
	p.checkpoint = c
	h.due[number] = p
	h.mu.Unlock()
	h.wake.Set()
}

// Reconnected records that a new connection writes the database, which may lead to another copy of
// it.
func (h *heads) Reconnected() {
	h.session.Add(1)
	h.compareAgain()
}

// compareAgain makes everything known be compared again on new connections, because a connection
// was lost.
func (h *heads) compareAgain() {
	h.rollback.db.Reconnect()
	h.external.Store(true)
	h.wake.Set()
}

// pinned returns the pins of chains. The result of any later read MUST include them.
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

// known returns the entries of the file and, for chains with newer trees in memory, those trees
// first. The result of any read after the call MUST include them.
func (h *heads) known() (list []headfile.Head, err error) {
	h.mu.Lock()
	pins := make(map[int64]pin, len(h.pins))
	for number, p := range h.pins {
		pins[number] = *p
	}
	h.mu.Unlock()
	add := func(known headfile.Head, p pin) {
		for _, tree := range []headfile.Tree{p.to, p.from} {
			if tree.Size > 0 && tree != known.Tree {
				newer := known
				newer.Tree = tree
				list = append(list, newer)
			}
		}
	}
	inFile, err := headsIn(h.file)
	for _, known := range inFile {
		add(known, pins[known.Chain])
		delete(pins, known.Chain)
		list = append(list, known)
	}
	for number, p := range pins {
		add(headfile.Head{Chain: number}, p)
	}
	return list, err
}

// written records that the file has a pin as it was.
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
	case was.from == was.to: // and more records were appended
		p.base = was.to
	default: // more was appended to a tree that was proven to be its prefix
		p.base = headfile.Tree{}
	}
	if p.checkpoint == was.checkpoint {
		p.checkpoint = headfile.Checkpoint{}
	}
	if p.to == was.to && !p.checkpoint.Published() {
		delete(h.due, number)
	}
}

// Watch implements Guard: chains that other servers extend are read later, and those that went back
// are compared.
func (h *heads) Watch(w *postgres.Watch) {
	extended := w.Extended
	w.Extended = func(number, from, to int64) {
		h.extended(number)
		extended(number, from, to)
	}
	w.Reconnected, h.wentBack = h.compareAgain, w.WentBack
	if h.hasFile() {
		w.Compare = func(ctx context.Context, before map[int64]int64) error { return h.shrunk(ctx, before, w.Log) }
	}
}

// Check implements Guard.
func (h *heads) Check(chains []int64, log *slog.Logger) func(int64, *chain.Head) error {
	known := h.pinned(chains)
	return func(number int64, head *chain.Head) error {
		if p, is := known[number]; is {
			return h.check(context.Background(), number, p, head, log)
		}
		return nil
	}
}
