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

// maxRuns bounds the runs of a log that are remembered.
const maxRuns = 256

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
	// runs of the export; 0 where the lines do not name any
	Runs int64 `json:"runs"`
	// records with a statement of their agent
	Statements int64 `json:"statements"`
}

// logCheck is the check of the lines of one log.
type logCheck struct {
	Part
	proven  bool   // a checkpoint that counts covers where the lines begin
	last    string // time of the newest record
	history history
	pending []tlog.Checkpoint // ascending sizes, above Part.Next
	runs    []*run            // the one of the last line comes last
}

// run has the place of the lines of a log that one run of the export has sent.
type run struct {
	name      string
	next      int64         // index that is next: below Part.Next while records come again
	tree      tlog.Frontier // of the first next records
	previous  int64         // index of the last checkpoint or opening line; -1 before the first
	checked   int64         // that of the last checkpoint line, and its @timestamp
	checkedAt string
	marks     []int64 // indexes of the last checkpoint and opening lines
	repeated  int64   // record lines that came again in this run
}

// newLogCheck returns the check of lines whose first one is of a run and behind the records of a
// frontier.
func newLogCheck(log, run string, before tlog.Frontier) *logCheck {
	index := before.Size
	l := &logCheck{Part: Part{Log: log, First: index, Next: index, From: index, To: index},
		history: history{base: index, snapshots: []tlog.Frontier{before}}}
	l.begin(run, before)
	return l
}

// begin remembers a run whose lines begin behind the records of a frontier.
func (l *logCheck) begin(name string, before tlog.Frontier) *run {
	if len(l.runs) == maxRuns { // if a line of that one comes, it begins there
		l.runs = slices.Delete(l.runs, 0, 1)
	}
	if name != "" {
		l.Runs++
	}
	r := &run{name: name, next: before.Size, tree: before, previous: -1, checked: -1}
	l.runs = append(l.runs, r)
	return r
}

// runOf returns the run of a line with an index. Its first line may have any index that the lines
// so far have reached.
func (l *logCheck) runOf(name string, index int64) (*run, error) {
	for i, r := range slices.Backward(l.runs) {
		if r.name == name {
			if i < len(l.runs)-1 {
				l.runs = append(slices.Delete(l.runs, i, i+1), r)
			}
			return r, nil
		}
	}
	before, err := l.treeAt(index)
	if err != nil {
		return nil, err
	}
	return l.begin(name, before), nil
}

// treeAt returns the frontier of the first index records, which the lines so far MUST have.
func (l *logCheck) treeAt(index int64) (tlog.Frontier, error) {
	switch {
	case index > l.Next:
		return tlog.Frontier{}, fail(Missing, "record %d is missing: a line has index %d", l.Next, index)
	case index < l.First:
		return tlog.Frontier{}, fail(Repeated, "a line has index %d, and the lines began at %d", index, l.First)
	}
	before, ok := l.history.at(index)
	if !ok { // and so would the records that come again be
		return before, fail(Repeated, "a line goes back to %d, more than %d records", index, remembered)
	}
	return before, nil
}

// skip moves a run to an index over records that another run has sent, and that a destination has
// left out here because it has them already.
func (l *logCheck) skip(r *run, index int64) error {
	if index <= r.next || index > l.Next || len(l.runs) < 2 {
		return nil
	}
	before, err := l.treeAt(index)
	if err == nil {
		r.next, r.tree = index, before
	}
	return err
}

// record checks that a record is the next one of its run, or comes again. leaf is its leaf.
func (l *logCheck) record(run *run, r *chain.Record, leaf tlog.Hash, signed func() bool) error {
	if err := l.skip(run, r.Index); err != nil {
		return err
	}
	switch {
	case r.Index < run.next:
		return fail(Repeated, "record %d comes again, and no opening line says so", r.Index)
	case r.Index > run.next:
		return fail(Missing, "record %d is missing: record %d is in its place", run.next, r.Index)
	}
	isNew := r.Index == l.Next
	if !isNew {
		before, ok := l.history.leaf(r.Index)
		switch {
		case !ok:
			return fail(Repeated, "record %d comes again after more than %d others; check the lines before the last opening line alone", r.Index, remembered)
		case before != leaf:
			return fail(Repeated, "record %d comes again, and is another one", r.Index)
		}
		l.Repeated++
		run.repeated++
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
	run.next++
	run.tree, _ = run.tree.Append(leaf)
	if !isNew {
		return nil
	}
	if run.next%snapshotEvery == 0 {
		l.history.snapshot(run.tree)
	}
	return l.meetPending(run.tree)
}

// meetPending compares the tree of all records so far with the checkpoints of its size.
func (l *logCheck) meetPending(tree tlog.Frontier) error {
	for len(l.pending) > 0 && l.pending[0].Size <= tree.Size {
		if c := l.pending[0]; c.Size == tree.Size && c.Root != tree.Root() {
			return fail(BadCheckpoint, "the records up to %d have another log root than a checkpoint that the company has signed at that size", c.Size)
		}
		l.pending = l.pending[1:]
	}
	return nil
}

// opening moves a run to the index of an opening line.
func (l *logCheck) opening(r *run, index int64, frontier tlog.Frontier) error {
	before := r.tree
	if index != r.next {
		var err error
		if before, err = l.treeAt(index); err != nil {
			return err
		}
	}
	if before.Root() != frontier.Root() {
		return fail(BadCheckpoint, "the opening line at %d is of another tree", index)
	}
	r.next, r.tree = index, before
	r.mark(index)
	l.Openings++
	return nil
}

// checkpoint checks that a checkpoint line is of the tree of the records so far. previous is that
// of the line, at its @timestamp.
func (l *logCheck) checkpoint(r *run, index, previous int64, frontier tlog.Frontier, at string) error {
	if err := l.skip(r, index); err != nil {
		return err
	}
	if index != r.next {
		return fail(Missing, "a checkpoint line has index %d, and record %d is next", index, r.next)
	}
	if r.previous >= 0 && !r.follows(index, previous, at) {
		return fail(BadCheckpoint, "the checkpoint line at %d follows one at %d, which is not the one before it: that is at %d", index, previous, r.previous)
	}
	if frontier.Root() != r.tree.Root() {
		return fail(BadCheckpoint, "the records up to %d do not make the tree of the checkpoint: one was deleted, changed or added", index)
	}
	r.checked, r.checkedAt = index, at
	r.mark(index)
	return nil
}

// mark remembers the index of a checkpoint or opening line.
func (r *run) mark(index int64) {
	r.previous = index
	if len(r.marks) == maxMarks {
		r.marks = append(r.marks[:0], r.marks[maxMarks/2:]...)
	}
	r.marks = append(r.marks, index)
}

// follows reports whether a checkpoint line may follow the lines so far: the line at previous is
// the last one. In the order of indexes, lines of an export that began again come between those
// that were sent before. Then the line at previous is there, with others behind it.
func (r *run) follows(index, previous int64, at string) bool {
	isDouble := index < r.checked || index == r.checked && at == r.checkedAt
	return previous == r.previous || !isDouble && slices.Contains(r.marks, previous)
}

// signed compares a checkpoint of the company, in a line of a run, with the records there are, or
// remembers it for those that come.
func (l *logCheck) signed(r *run, c tlog.Checkpoint) error {
	if c.Size <= r.next {
		return nil // its own proof says so
	}
	if c.Size <= l.Next {
		if tree, ok := l.history.at(c.Size); ok && tree.Root() != c.Root {
			return fail(BadCheckpoint, "the records up to %d have another log root than a checkpoint that the company has signed at that size", c.Size)
		}
		return nil
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

// repeated says which runs have sent records again, the last ones of them.
func (l *logCheck) repeatedRuns() (list []string) {
	if l.Runs < 2 {
		return nil
	}
	const most = 10
	for _, r := range slices.Backward(l.runs) {
		if r.repeated > 0 && len(list) < most {
			name := "the lines that name no run have"
			if r.name != "" {
				name = "run " + r.name + " has"
			}
			list = append(list, fmt.Sprintf("%s sent %d records again", name, r.repeated))
		}
	}
	slices.Reverse(list)
	return list
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

const (
	// remembered is how many records may come again.
	remembered = 1 << 18
	// every so many records the frontier is remembered
	snapshotEvery = 1 << 10
)

// history has the leaves of the last records of a log, so that records that come again are compared
// with them, and frontiers among them.
type history struct {
	base      int64 // index of leaves[0]
	leaves    []tlog.Hash
	snapshots []tlog.Frontier // ascending
}

// end returns the index after the last leaf.
func (h *history) end() int64 { return h.base + int64(len(h.leaves)) }

// add appends the leaf of the record with index end.
func (h *history) add(leaf tlog.Hash) {
	if len(h.leaves) >= remembered+remembered/4 {
		drop := len(h.leaves) - remembered
		h.base += int64(drop)
		h.leaves = append(h.leaves[:0], h.leaves[drop:]...)
		h.snapshots = slices.DeleteFunc(h.snapshots, func(f tlog.Frontier) bool { return f.Size < h.base })
	}
	h.leaves = append(h.leaves, leaf)
}

// snapshot remembers the frontier of a size.
func (h *history) snapshot(f tlog.Frontier) {
	if n := len(h.snapshots); n == 0 || h.snapshots[n-1].Size < f.Size {
		h.snapshots = append(h.snapshots, f)
	}
}

// leaf returns the leaf of a record before end.
func (h *history) leaf(index int64) (leaf tlog.Hash, ok bool) {
	if index < h.base || index >= h.end() {
		return leaf, false
	}
	return h.leaves[index-h.base], true
}

// at returns the frontier of the first size records, size from base to end.
func (h *history) at(size int64) (f tlog.Frontier, ok bool) {
	for _, s := range slices.Backward(h.snapshots) {
		if s.Size >= h.base && s.Size <= size {
			f, _ = s.Append(h.leaves[s.Size-h.base : size-h.base]...)
			return f, true
		}
	}
	return f, false
}
