package lines

import (
	"fmt"
	"slices"

	"attestd/chain"
	"attestd/chain/tlog"
)

// maxPending bounds the checkpoints that are of larger trees than the lines so far have.
const maxPending = 1024

// maxMarks bounds the checkpoint and opening lines that are remembered.
const maxMarks = 1024

// Part is what the lines have of one log.
type Part struct {
	Log string `json:"log"`
	// The records of the lines have the indexes [First, Next).
	First int64 `json:"first"`
	Next  int64 `json:"next"`
	// Those that are covered have [From, To): none of them is missing, changed or added.
	From int64 `json:"coveredFrom"`
	To   int64 `json:"coveredTo"`
	// record lines that came again
	Repeated int64 `json:"repeated"`
	// opening lines
	Openings int64 `json:"openings"`
	// records with a statement of their agent
	Statements int64 `json:"statements"`
}

// logCheck is the check of the lines of one log.
type logCheck struct {
	Part
	next      int64         // index that is next: below Part.Next while records come again
	tree      tlog.Frontier // of the first next records
	proven    bool          // a checkpoint that counts covers where the lines begin
	previous  int64         // index of the last checkpoint or opening line; -1 before the first
	checked   int64         // that of the last checkpoint line, and its @timestamp
	checkedAt string
	marks     []int64 // indexes of the last checkpoint and opening lines
	last      string
	history   history
	pending   []tlog.Checkpoint // ascending sizes, above next
}

// newLogCheck returns the check of lines that begin behind the records of a frontier.
func newLogCheck(log string, before tlog.Frontier) *logCheck {
	index := before.Size
	return &logCheck{Part: Part{Log: log, First: index, Next: index, From: index, To: index}, next: index, tree: before, previous: -1,
		checked: -1, history: history{base: index, snapshots: []tlog.Frontier{before}}}
}

// record checks that a record is the next one, or comes again. leaf is its leaf.
func (l *logCheck) record(r *chain.Record, leaf tlog.Hash, signed func() bool) error {
	switch {
	case r.Index < l.next:
		return fail(Repeated, "record %d comes again, and no opening line says so", r.Index)
	case r.Index > l.next:
		return fail(Missing, "record %d is missing: record %d is in its place", l.next, r.Index)
	}
	if r.Index < l.Next {
		before, ok := l.history.leaf(r.Index)
		switch {
		case !ok:
			return fail(Repeated, "record %d comes again after more than %d others; check the lines before the last opening line alone", r.Index, remembered)
		case before != leaf:
			return fail(Repeated, "record %d comes again, and is another one", r.Index)
		}
		l.Repeated++
	} else {
		if r.Timestamp < l.last {
			return fail(BadRecord, "record %d: its time is before that of its predecessor", r.Index)
		}
		if !signed() {
			return fail(BadRecord, "record %d: it was not signed with the company's key at that index", r.Index)
		}
		l.last = r.Timestamp
		l.history.add(leaf)
		l.Next++
	}
	l.next++
	l.tree, _ = l.tree.Append(leaf)
	if l.next%snapshotEvery == 0 {
		l.history.snapshot(l.tree)
	}
	return l.meetPending()
}

// meetPending compares the tree with the checkpoints of its size.
func (l *logCheck) meetPending() error {
	for len(l.pending) > 0 && l.pending[0].Size <= l.tree.Size {
		if c := l.pending[0]; c.Size == l.tree.Size && c.Root != l.tree.Root() {
			return fail(BadCheckpoint, "the records up to %d have another root than a checkpoint that the company has signed at that size", c.Size)
		}
		l.pending = l.pending[1:]
	}
	return nil
}

// opening moves to the index of an opening line.
func (l *logCheck) opening(index int64, frontier tlog.Frontier) error {
	switch {
	case index > l.Next:
		return fail(Missing, "record %d is missing: an opening line has index %d", l.Next, index)
	case index < l.First:
		return fail(Repeated, "an opening line has index %d, and the lines began at %d", index, l.First)
	case index < l.history.base: // and so would the records that come again be
		return fail(Repeated, "an opening line goes back to %d, more than %d records", index, remembered)
	case index == l.next:
		if frontier.Root() != l.tree.Root() {
			return fail(BadCheckpoint, "the opening line at %d is of another tree", index)
		}
	default:
		before, ok := l.history.at(index)
		if !ok {
			return fail(Repeated, "an opening line goes back to %d, more than %d records", index, remembered)
		}
		if before.Root() != frontier.Root() {
			return fail(BadCheckpoint, "the opening line at %d is of another tree", index)
		}
		l.tree = before
	}
	l.next = index
	l.mark(index)
	l.Openings++
	return nil
}

// checkpoint checks that a checkpoint line is of the tree of the records so far. previous is that
// of the line, at its @timestamp.
func (l *logCheck) checkpoint(index, previous int64, frontier tlog.Frontier, at string) error {
	if index != l.next {
		return fail(Missing, "a checkpoint line has index %d, and record %d is next", index, l.next)
	}
	if l.previous >= 0 && !l.follows(index, previous, at) {
		return fail(BadCheckpoint, "the checkpoint line at %d follows one at %d, which is not the one before it: that is at %d", index, previous, l.previous)
	}
	if frontier.Root() != l.tree.Root() {
		return fail(BadCheckpoint, "the records up to %d do not make the tree of the checkpoint: one was deleted, changed or added", index)
	}
	l.checked, l.checkedAt = index, at
	l.mark(index)
	return nil
}

// mark remembers the index of a checkpoint or opening line.
func (l *logCheck) mark(index int64) {
	l.previous = index
	if len(l.marks) == maxMarks {
		l.marks = append(l.marks[:0], l.marks[maxMarks/2:]...)
	}
	l.marks = append(l.marks, index)
}

// follows reports whether a checkpoint line may follow the lines so far: the line at previous is
// the last one. In the order of indexes, lines of an export that began again stand between those
// that were sent before. Then the line at previous is there, with others behind it.
func (l *logCheck) follows(index, previous int64, at string) bool {
	isDouble := index < l.checked || index == l.checked && at == l.checkedAt
	return previous == l.previous || !isDouble && slices.Contains(l.marks, previous)
}

// signed remembers a checkpoint of the company.
func (l *logCheck) signed(c tlog.Checkpoint) error {
	if c.Size <= l.next {
		return nil // its own proof says so
	}
	at, found := slices.BinarySearchFunc(l.pending, c.Size, func(p tlog.Checkpoint, size int64) int { return int(min(max(p.Size-size, -1), 1)) })
	switch {
	case found && l.pending[at].Root != c.Root:
		return fail(BadCheckpoint, "the company has signed two trees of %d records", c.Size)
	case !found && len(l.pending) < maxPending:
		l.pending = slices.Insert(l.pending, at, c)
	}
	return nil
}

// gaps says what is not covered.
func (l *logCheck) gaps() (list []string) {
	if l.First > 0 {
		list = append(list, fmt.Sprintf("What precedes record %d of the log %s: the lines begin there.", l.First, l.Log))
	}
	if l.Next > l.To {
		list = append(list, fmt.Sprintf("The end of the log %s: records %d to %d are not covered by a checkpoint yet. Each was signed by the company.", l.Log, l.To, l.Next-1))
	}
	return append(list, fmt.Sprintf("What follows in the log %s: the lines end before record %d.", l.Log, l.Next))
}
