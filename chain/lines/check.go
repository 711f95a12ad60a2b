package lines

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/internal/linereader"
)

// The codes of a check, in the order of the checks. Those of package evidence are MALFORMED, KEYS,
// RECORD, KEY and POLICY.
const (
	BadRecord                   = evidence.BadRecord
	Missing       evidence.Code = "MISSING"
	Repeated      evidence.Code = "REPEATED"
	BadCheckpoint evidence.Code = "CHECKPOINT"
	Uncovered     evidence.Code = "UNCOVERED"
)

// File is a file of lines. It is read twice.
type File struct {
	Name string
	io.ReadSeeker
}

// Options are those of a check.
type Options struct {
	Trust evidence.Trust // its AgentKey is not used
	// the company whose lines are checked; "" for the only one
	CompanyID string
}

// Verdict is the result of a check.
type Verdict struct {
	Outcome   evidence.Outcome `json:"verdict"`
	Code      evidence.Code    `json:"code,omitempty"`
	Reason    string           `json:"reason,omitempty"`
	CompanyID string           `json:"companyId"`
	Logs      []Part           `json:"logs"`
	Checked   []string         `json:"checked"`
	NotProven []string         `json:"notProven"`         // empty for lines that fail
	Archive   *ArchiveVerdict  `json:"archive,omitempty"` // of an archive that does not fail

	Summary []evidence.Line `json:"-"` // who did what, for people; nil for lines that fail
}

// ErrCompanies means that the lines are of several companies, and Options names none.
var ErrCompanies = errors.New("the lines are of several companies")

// failure is the first check that failed.
type failure struct {
	code   evidence.Code
	reason string
}

func (f *failure) Error() string { return f.reason }

func fail(code evidence.Code, format string, args ...any) error {
	return &failure{code, fmt.Sprintf(format, args...)}
}

const maxCompanies = 10_000

// Check checks the lines of files in this order. Its error is ErrCompanies, or that of a read.
func Check(files []File, o Options) (Verdict, error) {
	c := checker{options: o, logs: make(map[string]*logCheck), pinned: -1}
	v, err := c.verdict(c.run(files))
	if err == nil && v.Outcome != evidence.Fails {
		c.report(&v)
	}
	return v, err
}

// verdict returns the verdict of a check that has ended so, or the error of a read.
func (c *checker) verdict(err error) (Verdict, error) {
	v := Verdict{Outcome: evidence.Holds, CompanyID: c.options.CompanyID, Logs: []Part{}, Checked: []string{}, NotProven: []string{}}
	if c.ring != nil {
		v.CompanyID = c.ring.CompanyID()
	}
	var f *failure
	switch {
	case errors.As(err, &f):
		v.Outcome, v.Code, v.Reason = evidence.Fails, f.code, f.reason
		return v, nil
	case err != nil:
		return v, err
	case c.options.Trust.Fingerprint == "" && c.options.Trust.Policy == nil:
		v.Outcome, v.Reason = evidence.SelfConsistent, "key not confirmed: anyone can make such lines"
	}
	return v, nil
}

// checker is the state of a check.
type checker struct {
	options Options
	ring    *evidence.Ring // with the most keys
	pinned  int            // which of its keys is trusted; -1 without a fingerprint
	logs    map[string]*logCheck

	otherLines, headers, events int64 // lines of other companies, with headers, in OCSF
	cosigned                    int64 // checkpoints with unchecked cosignatures
	cut                         string
}

func (c *checker) run(files []File) error {
	if err := c.choose(files); err != nil {
		return err
	}
	if err := c.pin(); err != nil {
		return err
	}
	for i, f := range files {
		err := c.each(f, func(text []byte, isCut bool) error {
			l, err := parse(text)
			if isCut && err != nil && i == len(files)-1 {
				c.cut = f.Name // it is being written
				return nil
			}
			if err != nil {
				return fail(evidence.Malformed, "%v", err)
			}
			return c.line(&l)
		})
		if err != nil {
			return err
		}
	}
	return c.covered()
}

// pin finds the key that is trusted, if one is.
func (c *checker) pin() error {
	if c.ring != nil {
		c.options.Trust = c.options.Trust.Of(c.ring.CompanyID())
	}
	pinned := c.options.Trust.Fingerprint
	if pinned == "" {
		return nil
	}
	var ok bool
	if c.pinned, ok = c.ring.Pinned(pinned); !ok {
		return fail(evidence.KeyUntrusted, "the lines do not contain the key that you trust, %s", pinned)
	}
	return nil
}

// each calls yield for the lines of a file, and says in errors which line it was.
func (c *checker) each(f File, yield func(text []byte, isCut bool) error) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	lines, long := linereader.New(f, MaxLine), (*linereader.TooLongError)(nil)
	for n := 1; ; n++ {
		text, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &long):
			return fail(evidence.Malformed, "%s, line %d: %v", f.Name, n, err)
		case err != nil && !errors.Is(err, linereader.ErrCut):
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		err = yield(text, err != nil)
		if broken := (*failure)(nil); errors.As(err, &broken) {
			return fail(broken.code, "%s, line %d: %s", f.Name, n, broken.reason)
		}
		if err != nil {
			return err
		}
	}
}

// choose finds the keys line with the most keys, and the company. What is wrong with a line shows
// when it is checked.
func (c *checker) choose(files []File) error {
	companies := make(map[string]bool)
	var wrong error
	for _, f := range files {
		err := c.each(f, func(text []byte, _ bool) error {
			if !strings.Contains(string(text[:min(len(text), 4096)]), `"`+TypeKeys+`"`) {
				return nil
			}
			l, err := parse(text)
			if err != nil || l.kind != TypeKeys {
				return nil
			}
			if wanted := c.options.CompanyID; wanted != "" && l.company != wanted {
				return nil
			}
			ring, err := evidence.ReadRing(l.ring)
			if err != nil {
				wrong = err
				return nil
			}
			if companies[ring.CompanyID()] = true; len(companies) > maxCompanies {
				return ErrCompanies
			}
			if c.ring == nil || ring.Keys() > c.ring.Keys() {
				c.ring = ring
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(companies) > 1 {
		some := slices.Sorted(maps.Keys(companies))
		return fmt.Errorf("%w: %q", ErrCompanies, some[:min(len(some), 5)])
	}
	if c.ring == nil && wrong != nil {
		return fail(evidence.KeysUnproven, "no keys line of the company is right: %v", wrong)
	}
	if c.ring == nil {
		return fail(evidence.KeysUnproven, "there is no keys line of the company: check these lines together with those before them")
	}
	return nil
}

// line checks one line.
func (c *checker) line(l *line) error {
	if l.company != c.ring.CompanyID() {
		return c.other(l)
	}
	if l.header {
		c.headers++
	}
	if l.isOCSF {
		c.events++
	}
	if l.kind == TypeKeys {
		ring, err := evidence.ReadRing(l.ring)
		if err != nil {
			return &failure{evidence.CodeOf(err), err.Error()}
		}
		if !c.ring.Extends(ring) {
			return fail(evidence.KeysUnproven, "these keys are not the first of the %d of another line", c.ring.Keys())
		}
		return nil
	}
	log := c.logs[l.log]
	if log == nil {
		if l.index > 0 && l.kind != TypeOpening {
			return fail(Missing, "the lines of the log %s begin at record %d, and no opening line says that they do: check them together with those before them",
				l.log, l.index)
		}
		log = newLogCheck(l.log, l.run, l.frontier)
		c.logs[l.log] = log
	}
	if l.kind == TypeRecord {
		return c.record(log, l)
	}
	return c.mark(log, l)
}

// other looks at a line of another company, which MUST NOT have content of this one.
func (c *checker) other(l *line) error {
	c.otherLines++
	var err error
	switch l.kind {
	case TypeKeys:
		if ring, err := evidence.ReadRing(l.ring); err != nil || ring.CompanyID() != l.company {
			return fail(evidence.KeysUnproven, "the keys in it are not of the company %q", l.company)
		}
		return nil
	case TypeRecord:
		_, _, err = c.ring.Record(l.log, l.record)
	default:
		_, _, err = c.ring.Open(l.log, string(l.consistency.Checkpoint))
	}
	if err == nil {
		return fail(evidence.Malformed, "what is in it is of the company %s, and its companyId is %q", c.ring.CompanyID(), l.company)
	}
	return nil
}

func (c *checker) record(log *logCheck, l *line) error {
	r, stated, err := c.ring.Record(l.log, l.record)
	if err != nil {
		return fail(BadRecord, "record %d of the log %s: %v", l.index, l.log, err)
	}
	if r.Index != l.index || r.Hash != l.hash || r.Timestamp != l.at {
		return fail(evidence.Malformed, "index, hash or @timestamp is not that of the record")
	}
	if stated && r.Index >= log.Next { // once, where records come again
		log.Statements++
	}
	run, err := log.runOf(l.run, l.index)
	if err == nil {
		err = log.record(run, r, c.ring.Leaf(l.log, r), func() bool { return c.ring.Signed(l.log, r) })
	}
	return within(l.log, err)
}

// within says in an error of a log which log it is.
func within(log string, err error) error {
	if f := (*failure)(nil); errors.As(err, &f) {
		return &failure{f.code, "log " + log + ": " + f.reason}
	}
	return err
}

// mark checks a checkpoint or opening line.
func (c *checker) mark(log *logCheck, l *line) error {
	text := string(l.consistency.Checkpoint)
	signed, signer, err := c.ring.Open(l.log, text)
	if err == nil {
		err = tlog.CheckConsistency(l.consistency.Proof, l.frontier.Tree(), signed.Tree)
	}
	if err != nil {
		return fail(BadCheckpoint, "log %s, index %d: %v", l.log, l.index, err)
	}
	run, err := log.runOf(l.run, l.index)
	switch {
	case err != nil:
	case l.kind == TypeOpening:
		err = log.opening(run, l.index, l.frontier)
	default:
		err = log.checkpoint(run, l.index, l.previous, l.frontier, l.at)
	}
	if err == nil {
		err = log.signed(run, signed)
	}
	if err != nil {
		return within(l.log, err)
	}
	if _, signatures, _ := strings.Cut(text, "\n\n"); strings.Count(signatures, "\n") > 1 && c.options.Trust.Policy == nil {
		c.cosigned++
	}
	if c.counts(l.log, text, signer) {
		log.To, log.proven = max(log.To, l.index), true
	}
	return nil
}

// counts reports whether what the person trusts vouches for a checkpoint.
func (c *checker) counts(log, text string, signer int) bool {
	if policy := c.options.Trust.Policy; policy != nil {
		return c.ring.Meets(*policy, log, text, signer) == nil
	}
	return signer >= c.pinned
}

// covered checks that each log has a checkpoint that counts.
func (c *checker) covered() error {
	for _, name := range []string{evidence.Actions, evidence.Control} {
		if c.logs[name] == nil { // an export opens both
			return fail(Missing, "there is no line of the log %s; check these lines together with those before them", name)
		}
	}
	for _, log := range c.logs {
		if log.First > 0 && !log.proven {
			return fail(Uncovered, "no checkpoint that counts covers where the lines of the log %s begin, at record %d", log.Log, log.First)
		}
		if log.Next > log.First && log.To <= log.From {
			return fail(Uncovered, "the log %s has %d records, and no checkpoint that counts covers one", log.Log, log.Next-log.First)
		}
	}
	return nil
}

// report says what was checked and what is not proven.
func (c *checker) report(v *Verdict) {
	say := func(format string, args ...any) { v.Checked = append(v.Checked, fmt.Sprintf(format, args...)) }
	say("the company %s has %d keys, up to %s", v.CompanyID, c.ring.Keys(), c.ring.Fingerprint(c.ring.Keys()-1))
	for _, name := range slices.Sorted(maps.Keys(c.logs)) {
		log := c.logs[name]
		v.Logs = append(v.Logs, log.Part)
		if log.First > 0 {
			say("log %s: the lines begin with record %d, and their opening line proves which %d records come before it", name, log.First, log.First)
		}
		if log.To > log.From {
			say("log %s: records %d to %d are all there and unchanged, up to a checkpoint that the company has signed", name, log.From, log.To-1)
		} else {
			say("log %s: no records", name)
		}
		if log.Openings > 1 || log.Repeated > 0 {
			say("log %s: the export began %d times; %d records came again, the same each time", name, log.Openings, log.Repeated)
		}
		for _, text := range log.repeatedRuns() {
			say("log %s: %s", name, text)
		}
		v.NotProven = append(v.NotProven, log.gaps()...)
	}
	if c.events > 0 {
		say("%d lines are OCSF events, which say what the lines in them say", c.events)
	}
	if c.headers > 0 {
		v.NotProven = append(v.NotProven, fmt.Sprintf("What stands before %d lines: the header of syslog.", c.headers))
	}
	if c.cosigned > 0 {
		v.NotProven = append(v.NotProven, fmt.Sprintf("Further signatures below %d checkpoints: only a policy says whose they are.", c.cosigned))
	}
	if c.otherLines > 0 {
		v.NotProven = append(v.NotProven, fmt.Sprintf("%d lines of other companies, which were not checked.", c.otherLines))
	}
	if c.cut != "" {
		v.NotProven = append(v.NotProven, "The last line of "+c.cut+", which is incomplete.")
	}
	v.NotProven = append(v.NotProven, "When lines that are no records were written: their times are the exporter's word.")
	v.NotProven = append(v.NotProven, c.notProven()...)
	v.Summary = c.summary(v)
}

// summary returns the lines that people read first.
func (c *checker) summary(v *Verdict) []evidence.Line {
	last := c.ring.Keys() - 1
	var what []string
	for _, log := range v.Logs {
		one := fmt.Sprintf("no records of %s", log.Log)
		first, next := log.From, log.To
		if v.Archive != nil {
			first, next = log.First, log.Next
		}
		if next > first {
			one = fmt.Sprintf("records %d to %d of %s", first, next-1, log.Log)
		}
		what = append(what, one)
	}
	if v.Archive != nil {
		what = append(what, "all from before "+v.Archive.Before, "the file has the SHA-256 "+v.Archive.SHA256)
	}
	return []evidence.Line{
		{Name: "who", Text: fmt.Sprintf("all agents of the company %q", v.CompanyID)},
		{Name: "signed by", Text: evidence.CompanyKey(c.ring.Fingerprint(last), c.options.Trust)},
		{Name: "what", Text: strings.Join(what, "; ")},
		{Name: "payload", Text: "not shown: each record has its own, in its line of the file"},
		{Name: "on behalf of", Text: "not shown: each record has its own delegation, in its line of the file"},
		{Name: "right", Text: "not shown: the records of control say what was allowed, and when"},
	}
}

// notProven says what these lines do not prove, and no lines do.
func (c *checker) notProven() (list []string) {
	if actions := c.logs[evidence.Actions]; actions.Statements > 0 {
		list = append(list, fmt.Sprintf(
			"What agents have signed: %d records have a statement, which was not checked. Evidence of a record, or the file of a session, has its agent's keys.",
			actions.Statements))
	}
	return append(list,
		"That what payloads say is true: only that the service was given them, and when by the service's clock.",
		"That nobody else had the company's key, nor that a key was not declared compromised since.",
		"That there is no other history: only witnesses whom you chose, or a checkpoint that you kept, show that.")
}
