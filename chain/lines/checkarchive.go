package lines

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/internal/linereader"
)

// ArchiveVerdict is the result of checking an archive, apart from its records.
type ArchiveVerdict struct {
	Before string `json:"before"`
	SHA256 string `json:"sha256"` // of the whole file, in lower-case hex
	// SHA-256 of the archive that it continues: that has the actions before its first. "" for none.
	Continues string `json:"continues,omitempty"`
	// Actions is the log tree of all records of actions up to the last in the archive.
	Actions tlog.Tree `json:"-"`
}

// CheckArchive checks an archive while reading it. Memory does not grow with its length. Its error
// is that of a read.
func CheckArchive(src io.Reader, o Options) (Verdict, error) {
	sum := sha256.New()
	c := archiveChecker{checker: checker{options: o, logs: make(map[string]*logCheck), pinned: -1}, trees: make(map[string][]tlog.Tree),
		lines: linereader.New(io.TeeReader(src, sum), MaxLine)}
	err := c.run()
	v, err := c.verdict(err)
	if err != nil || v.Outcome == evidence.Fails {
		return v, err
	}
	v.Archive = &ArchiveVerdict{Before: c.first.before, SHA256: hex.EncodeToString(sum.Sum(nil)), Actions: c.actions}
	if c.logs[evidence.Actions].First > 0 {
		v.Archive.Continues = c.pruned.archive
	}
	c.report(&v)
	return v, nil
}

// archiveChecker is the state of the check of an archive.
type archiveChecker struct {
	checker
	lines *linereader.Reader
	read  int64 // lines
	first archiveLine
	facts []string               // what was checked
	trees map[string][]tlog.Tree // of the checkpoints of each log, by the log's name

	pruned prune // the last one of the control log; of no records for none
	isLate bool  // a control record is not from before the moment
	// of the last log that was checked, which is that of the actions at the end
	actions tlog.Tree
}

func (c *archiveChecker) run() error {
	err := c.all()
	if f := (*failure)(nil); errors.As(err, &f) && c.read > 0 {
		return fail(f.code, "line %d: %s", c.read, f.reason)
	}
	return err
}

func (c *archiveChecker) all() error {
	if err := c.head(); err != nil {
		return err
	}
	for i := range archiveOrder {
		if err := c.log(i); err != nil {
			return err
		}
	}
	if _, err := c.next(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = fail(Missing, "the archive ends before this line")
		}
		return err
	}
	return c.newer()
}

// newer checks the newer checkpoint that the person has.
func (c *archiveChecker) newer() error {
	newer := c.options.Trust.Newer
	if newer == nil {
		return nil
	}
	finding, err := c.ring.Follows(*newer, c.options.Trust.Policy, func(log string) []tlog.Tree { return c.trees[log] })
	if err != nil {
		c.read = 0 // it is not about a line
		return &failure{evidence.CodeOf(err), err.Error()}
	}
	c.facts = append(c.facts, finding)
	return nil
}

// next returns the next line, until the next call, or io.EOF.
func (c *archiveChecker) next() ([]byte, error) {
	text, err := c.lines.Next()
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	c.read++
	if long := (*linereader.TooLongError)(nil); errors.As(err, &long) || errors.Is(err, linereader.ErrCut) {
		return nil, fail(evidence.Malformed, "%v", err)
	}
	return text, err
}

// expect returns the next line, which must be of a type and, unless that is keys, of a log and an
// index.
func (c *archiveChecker) expect(kind, log string, index int64) (l line, err error) {
	text, err := c.next()
	if errors.Is(err, io.EOF) {
		return l, fail(Missing, "it is the last one, and %s is missing", describe(kind, log, index))
	}
	if err != nil {
		return l, err
	}
	l, err = parse(text)
	switch {
	case err != nil:
	case l.header || l.isOCSF:
		err = errors.New("there is something around it")
	case l.run != "":
		err = errors.New("it is of a run of an export, and no line of an archive is")
	}
	if err != nil {
		return l, fail(evidence.Malformed, "%v", err)
	}
	if l.company != c.first.company {
		return l, fail(evidence.Malformed, "it is of the company %.200q, and the archive of %q", l.company, c.first.company)
	}
	if l.kind != kind || kind != TypeKeys && (l.log != log || l.index != index && index != anyIndex) {
		return l, fail(Missing, "%s is missing: %s is in its place", describe(kind, log, index), describe(l.kind, l.log, l.index))
	}
	return l, nil
}

// anyIndex is the index of a line that may have any.
const anyIndex = -1

func describe(kind, log string, index int64) string {
	switch {
	case kind == TypeKeys:
		return "the keys line"
	case index == anyIndex:
		return fmt.Sprintf("the %s line of the log %s", kind, log)
	}
	return fmt.Sprintf("the %s line %d of the log %s", kind, index, log)
}

// head checks the first two lines.
func (c *archiveChecker) head() error {
	text, err := c.next()
	if errors.Is(err, io.EOF) {
		return fail(evidence.Malformed, "the archive is empty")
	}
	if err != nil {
		return err
	}
	if c.first, err = parseArchive(text); err != nil {
		return fail(evidence.Malformed, "%v", err)
	}
	if wanted := c.options.CompanyID; wanted != "" && wanted != c.first.company {
		return fail(evidence.Malformed, "it is of the company %.200q", c.first.company)
	}
	l, err := c.expect(TypeKeys, "", 0)
	if err != nil {
		return err
	}
	if c.ring, err = evidence.ReadRing(l.ring); err != nil {
		return &failure{evidence.CodeOf(err), err.Error()}
	}
	if c.ring.CompanyID() != c.first.company {
		return fail(evidence.KeysUnproven, "the keys in it are of the company %q", c.ring.CompanyID())
	}
	return c.pin()
}

// log checks the lines of one log.
func (c *archiveChecker) log(i int) error {
	name, records := archiveOrder[i], c.first.logs[i].index
	whole, signer, err := c.first.tree(c.ring, i)
	if err != nil {
		return fail(BadCheckpoint, "the checkpoint of the log %s in the first line: %v", name, err)
	}
	opening, err := c.opening(name)
	if err == nil {
		err = c.line(&opening)
	}
	if err != nil {
		return err
	}
	for n := opening.index; n < records; n++ {
		l, err := c.expect(TypeRecord, name, n)
		if err == nil {
			err = c.line(&l)
		}
		if err == nil {
			err = c.moment(&l, n == records-1)
		}
		if err != nil {
			return err
		}
	}
	end, err := c.expect(TypeCheckpoint, name, records)
	if err == nil {
		err = c.line(&end)
	}
	if err != nil {
		return err
	}
	text := string(end.consistency.Checkpoint)
	today, by, err := c.ring.Open(name, text)
	switch {
	case err != nil:
		return fail(BadCheckpoint, "log %s: %v", name, err)
	case end.previous != opening.index:
		return fail(BadCheckpoint, "log %s: the checkpoint line has not the index of the opening line before it", name)
	case by != signer || whole != end.frontier.Tree():
		return fail(BadCheckpoint, "log %s: the checkpoint in the first line has another tree or another key", name)
	case !c.counts(name, text, by):
		return fail(Uncovered, "log %s: what you trust vouches for no checkpoint that covers the records", name)
	}
	c.actions = whole
	c.trees[name] = []tlog.Tree{whole, today.Tree}
	which := fmt.Sprintf("the first %d records, all there and unchanged:", records)
	if opening.index > 0 {
		which = fmt.Sprintf("the records from %d to before %d, all there and unchanged, and with those before them", opening.index, records)
		c.facts = append(c.facts, fmt.Sprintf(
			"log %s: control record %d says that the payloads of the first %d records were pruned, and that the archive with the SHA-256 %s has them",
			name, c.pruned.index, c.pruned.records, c.pruned.archive))
	}
	c.facts = append(c.facts, fmt.Sprintf("log %s: %s the beginning of a log of %d records, which the company has signed", name, which, today.Size))
	return nil
}

// opening returns the opening line of a log. Its index is 0, or of the actions that of the last
// prune in the control log. If control records are not from before the moment, it is that one.
func (c *archiveChecker) opening(name string) (l line, err error) {
	if name != evidence.Actions || c.pruned.records == 0 {
		return c.expect(TypeOpening, name, 0)
	}
	if l, err = c.expect(TypeOpening, name, anyIndex); err != nil {
		return l, err
	}
	switch {
	case l.index == 0 && !c.isLate:
	case l.index != c.pruned.records:
		err = fail(Missing, "the opening line of the log %s has index %d, and the last prune in the control log is of %d records", name, l.index, c.pruned.records)
	case l.frontier.Root() != c.pruned.root:
		err = fail(BadCheckpoint, "the opening line of the log %s is of another tree than the control record of the prune", name)
	}
	return l, err
}

// moment checks that a record is from before the moment of the archive, and notes what a control
// record says of a prune. Control records of a later time may follow up to the last one, which MUST
// be that of a prune.
func (c *archiveChecker) moment(l *line, isLast bool) error {
	isPrune := false
	if l.log == evidence.Control {
		if p, is := readPrune(l.index, l.record); is {
			c.pruned, isPrune = p, true
		}
		c.isLate = c.isLate || l.at >= c.first.before
	}
	if l.at < c.first.before || l.log == evidence.Control && (!isLast || isPrune) {
		return nil
	}
	return fail(BadRecord, "record %d of the log %s: its time %s is not before %s", l.index, l.log, l.at, c.first.before)
}

// report says what was checked and what is not proven.
func (c *archiveChecker) report(v *Verdict) {
	v.Checked = append([]string{
		fmt.Sprintf("an archive of the company %s: records from before %s, SHA-256 %s", v.CompanyID, v.Archive.Before, v.Archive.SHA256),
		fmt.Sprintf("the company has %d keys, up to %s", c.ring.Keys(), c.ring.Fingerprint(c.ring.Keys()-1)),
	}, c.facts...)
	for _, name := range archiveOrder {
		v.Logs = append(v.Logs, c.logs[name].Part)
	}
	if sum := v.Archive.Continues; sum != "" {
		v.NotProven = append(v.NotProven, fmt.Sprintf(
			"What the first %d actions were: they are in the archive with the SHA-256 %s, to be checked by itself.", c.pruned.records, sum))
	}
	v.NotProven = append(v.NotProven,
		"That the logs had no further records from before "+v.Archive.Before+", nor what followed: the archive ends where who made it said.")
	if c.cosigned > 0 {
		v.NotProven = append(v.NotProven, fmt.Sprintf("Further signatures below %d checkpoints: only a policy says whose they are.", c.cosigned))
	}
	v.NotProven = append(v.NotProven, "When the archive was made: that time is the maker's word.")
	v.NotProven = append(v.NotProven, c.notProven()...)
	v.Summary = c.summary(v)
}
