package evidence

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"attestd/chain"
	"attestd/chain/tlog"
)

// ReportFormat is the first member of every report.
//
// A report has all records of both logs in a
// period, as JSON lines: a header, the records of control, then those of actions.
//
//	header  {"format":"attestd-report/v1","companyId","from","to","logs":[actions,
//	        control],"keys","witnesses","policies"?,"notProven"}
//	        with companyId, keys and witnesses as in evidence, and of each log log, logId, origin and keys too, and
//	        start     checkpoint of the log at the beginning of the period, with the last key's signature alone
//	        frontier  [base64…]: the roots of the perfect subtrees of that tree, the largest first
//	        end       checkpoint at the end of the period, with cosignatures where there are any
//	line    {"log":"control"|"actions","record"}
//
// policies has the control records of the policies that were in force at the beginning of the
// period, as in evidence. The changes in the period follow them: where these are more than 10,000,
// or longer than 8 MiB, no decision is checked. A control record with the subject "policies" that
// is no change of one says that an operator has accepted policies past the control log. Then no
// decision is checked either, and the verdict says so.
//
// The times of all records lie in [from, to), the requested period. A checker computes the start's
// root from the frontier, appends the leaf of each record, and compares the result with the end's
// root. So no record between the two checkpoints is missing or changed. The signatures of records
// need no separate check, because the leaves contain them.
const ReportFormat = "attestd-report/v1"

// Report is the header of a report.
type Report struct {
	From, To string
	File     *File // CompanyID, Logs, Keys, Witnesses and Policies
	Periods  [2]Period
}

// Period is the part of one log in a report.
type Period struct {
	Start    string // signed checkpoint
	Frontier tlog.Frontier
	End      string // signed checkpoint
}

// Header returns the first line, without its line feed.
func (r *Report) Header() []byte {
	w := writer(nil)
	w.object(func(m *members) {
		m.text("format", ReportFormat)
		m.text("companyId", r.File.CompanyID)
		m.text("from", r.From)
		m.text("to", r.To)
		m.list("logs", func(each func(func(*members))) {
			for i, l := range r.File.Logs {
				each(func(m *members) {
					l.write(m, len(r.File.Keys))
					m.text("start", r.Periods[i].Start)
					frontier := make([]string, len(r.Periods[i].Frontier.Roots))
					for j, root := range r.Periods[i].Frontier.Roots {
						frontier[j] = root.String()
					}
					m.texts("frontier", frontier)
					m.text("end", r.Periods[i].End)
				})
			}
		})
		m.list("keys", r.File.writeKeys)
		m.texts("witnesses", r.File.Witnesses)
		if r.File.Policies != nil {
			m.object("policies", func(m *members) { m.entries(r.File.Policies.Entries) })
		}
		m.texts("notProven", reportNotProven())
	})
	return w
}

// AppendLine appends the line of a record, without its line feed.
func AppendLine(dst []byte, log string, r *chain.Record) []byte {
	dst = append(append(append(dst, `{"log":"`...), log...), `","record":`...)
	return append(r.AppendLine(dst), '}')
}

func reportNotProven() []string {
	return []string{
		"That the period holds all records of its time: the sizes at its start and its end do, when the report before ended where this one starts, and the next one starts where this one ends.",
		"That what payloads say is true: only that the service was given them, and when by the service's clock.",
		"That the service's clock was right: every time in this report that is not a witness's is the operator's word.",
		"That nobody else had the company's key, nor that a key was not declared compromised after this report was made.",
		"That there is no other history: only witnesses whom you chose, or a checkpoint that you kept, show that. Two appliances of one owner are not independent.",
		"What is not recorded: SVIDs, delegation tokens and access tokens.",
	}
}

// Event is a record of a report in a form for people.
type Event struct {
	Log                string
	Index              int64
	Timestamp, AgentID string
	Action             string
	Delegated          []string // delegation chain of an action
	Subject, By        string   // of a control record

	// The configured witnesses before and after a control record that sets them: "" for none, nil
	// if the record does not set them.
	WitnessesBefore, Witnesses *string
}

// CheckReport checks a report while reading it, in constant memory. It calls header after the
// header has passed the checks, and visit for each record. The caller MUST discard both if the
// verdict fails, because a missing record is detected only at the end.
func CheckReport(src io.Reader, t Trust, header func(*Report), visit func(*Event)) Verdict {
	c := newChecker(t)
	return c.verdict(c.report(src, header, visit))
}

func (c *checker) report(src io.Reader, header func(*Report), visit func(*Event)) error {
	lines := bufio.NewScanner(src)
	lines.Buffer(nil, MaxSize)
	if !lines.Scan() {
		return missing(lines, Malformed, "the report is empty")
	}
	r, err := c.readReport(lines.Bytes())
	if err != nil {
		return fail(Malformed, "header: %v", err)
	}
	c.file = r.File
	for _, step := range []func() error{c.keys, c.readWitnesses, func() error { return c.periods(r) }, c.policies, c.allCosigned, c.trusted} {
		if err := step(); err != nil {
			return err
		}
	}
	header(r)
	for _, i := range []int{1, 0} {
		if err := c.period(r, i, lines, visit); err != nil {
			return err
		}
	}
	if lines.Scan() || lines.Err() != nil { // an overlong line is a line too
		return missing(lines, Malformed, "there are more lines than the checkpoints have records")
	}
	c.checkedDecisions()
	c.checkedDisobeyed()
	c.ofPeriod = r
	return nil
}

// missing returns the read error of lines, or the given failure if the input has ended.
func missing(lines *bufio.Scanner, code Code, format string, args ...any) error {
	if err := lines.Err(); err != nil {
		return fail(Malformed, "the report cannot be read to its end: %v", err)
	}
	return fail(code, format, args...)
}

// readReport parses the header.
func (c *checker) readReport(line []byte) (*Report, error) {
	if err := c.sound(line); err != nil {
		return nil, err
	}
	in, r := new(form), &Report{File: &File{bothLogs: true, Log: Actions}}
	m := value{in, "it", line}.object([]string{"format", "companyId", "from", "to", "logs", "keys", "witnesses", "notProven"}, "policies")
	if m["format"].text() != ReportFormat {
		in.refuse("format is not %q", ReportFormat)
	}
	f := r.File
	f.CompanyID, r.From, r.To = m["companyId"].company(), m["from"].timestamp(), m["to"].timestamp()
	f.readKeys(m["keys"])
	logs := m["logs"].list(len(r.Periods))
	for i, v := range logs {
		m := v.object([]string{"log", "logId", "origin", "keys", "start", "frontier", "end"})
		f.Logs = append(f.Logs, f.readLog(m))
		r.Periods[i] = Period{Start: m["start"].text(), End: m["end"].text()}
		for _, v := range m["frontier"].list(maxSteps) {
			r.Periods[i].Frontier.Roots = append(r.Periods[i].Frontier.Roots, v.root())
		}
	}
	for _, v := range m["witnesses"].list(maxCosign) {
		f.Witnesses = append(f.Witnesses, v.text())
	}
	f.Policies = m["policies"].policies()
	var stated []string
	for _, v := range m["notProven"].list(maxEntries) {
		stated = append(stated, v.text())
	}
	if f.NotProven = reportNotProven(); in.err == nil && !slices.Equal(stated, f.NotProven) {
		in.refuse("notProven is not the list for a report")
	}
	if r.From > r.To {
		in.refuse("the period ends before it begins")
	}
	return r, in.err
}

// periods checks the checkpoints of the period and their frontiers.
func (c *checker) periods(r *Report) error {
	for i := range c.file.Logs {
		l, p := &c.file.Logs[i], &r.Periods[i]
		end, err := c.open(l, p.End)
		if err == nil {
			var start tlog.Checkpoint
			start, _, err = tlog.OpenCheckpoint([]byte(p.Start), l.vkey(l.Keys[len(l.Keys)-1].Public))
			p.Frontier.Size = start.Size
			switch {
			case err != nil:
			case start.Origin != l.Origin || start.Size > end.Size || bytes.Count([]byte(p.Start), []byte("\n")) != 5:
				err = errors.New("its start is not a checkpoint of the log with one signature, at or before its end")
			default:
				err = p.Frontier.Check(start.Root)
			}
		}
		if err != nil {
			return fail(BadLogProof, "log %s: %v", l.Name, err)
		}
		c.addChecked("log %s: from %d records to %d, both signed by the company's last key", l.Name, p.Frontier.Size, end.Size)
	}
	return nil
}

// period checks that the records of one log lead from its start to its end.
func (c *checker) period(r *Report, i int, lines *bufio.Scanner, visit func(*Event)) error {
	l := &c.file.Logs[i]
	tree, end := r.Periods[i].Frontier, c.notes[l.Name].Checkpoint
	made := chain.Leaves{Keys: l.keySet()}
	last := r.From
	for tree.Size < end.Size {
		if !lines.Scan() {
			return missing(lines, BadRecord, "log %s: record %d is missing", l.Name, tree.Size)
		}
		record, event, err := c.line(l, lines.Bytes())
		switch {
		case err != nil:
		case record.Index != tree.Size:
			err = fmt.Errorf("record %d is in its place", record.Index)
		case record.Timestamp < last || record.Timestamp >= r.To:
			err = fmt.Errorf("its time %s is outside the period or before that of its predecessor", record.Timestamp)
		}
		if err != nil {
			return failRecord(err, "log %s, record %d: %v", l.Name, tree.Size, err)
		}
		last = record.Timestamp
		leaf := made.Of(record)
		tree, _ = tree.Append(leaf.Hash())
		visit(event)
	}
	if tree.Tree() != end.Tree {
		return fail(BadLogProof, "log %s: the records do not lead from the checkpoint at the start to the one at the end", l.Name)
	}
	c.addChecked("log %s: %d records, which lead from one checkpoint to the other: none is missing or changed", l.Name, end.Size-r.Periods[i].Frontier.Size)
	return nil
}

// line parses and checks a record of a log.
func (c *checker) line(l *Log, line []byte) (*chain.Record, *Event, error) {
	if err := c.sound(line); err != nil {
		return nil, nil, err
	}
	f := new(form)
	m := value{f, "it", line}.object([]string{"log", "record"})
	name, r := m["log"].text(), m["record"].record()
	if name != l.Name {
		f.refuse("it is of the log %q", name)
	}
	if f.err != nil {
		return nil, nil, f.err
	}
	in, err := c.hashed(l, &r)
	if err != nil {
		return nil, nil, err
	}
	e := &Event{Log: l.Name, Index: r.Index, Timestamp: r.Timestamp, AgentID: in.agentID, Action: in.actionType, Delegated: in.delegated}
	if l.Name == Control {
		var stated event
		stated, err = newEvent(&r, in)
		e.Subject, e.By, e.WitnessesBefore, e.Witnesses = stated.subject, by(stated.by), stated.before, stated.witnesses
		if err == nil && stated.subject == aboutPolicies {
			err = c.policyLog.addLine(&stated)
		}
	} else {
		err = c.decided(&r, &in)
		c.disobeyed.add(&r, &in)
	}
	return &r, e, err
}
