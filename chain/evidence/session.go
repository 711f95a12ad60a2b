package evidence

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"attestd/chain"
	"attestd/chain/action"
	"attestd/chain/tlog"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/crypto/strictjson"
	"attestd/internal/lazyregexp"
	"attestd/internal/linereader"
)

// SessionFormat is the first member of every file of a session.
//
// A file has the records of one session, what an agent did in one run under one key, as JSON lines.
// Each line is a JSON text of at most 8 MiB, with the bounds of evidence, and ends in a line feed:
//
//	header  {"format":"attestd-session/v1","companyId","agentId","kid","sid","records","checkpoint","logs",
//	        "keys","witnesses","agentKey","policies"?,"passports"?,"approvals"?,"notProven"}
//	        with companyId, logs (actions, control), keys, witnesses and agentKey as in evidence;
//	        kid         thumbprint of the key that signed all statements
//	        sid         session, as in statements
//	        records     how many lines follow: 1 to 1,000,000
//	        passports   as in evidence, of passports that decisions may name
//	        approvals   as in evidence, of all that was allowed with one; others may have it
//	        policies    as in evidence, of all decisions of the session; a file without decisions may have it
//	        checkpoint  signed checkpoint of actions, with cosignatures where there are any
//	line    {"record","proof"}
//	        proof       ["<base64>"…]: RFC 6962 inclusion proof of the record's leaf in the checkpoint's tree
//
// The lines are in the order of seq. A checker reads the file once, with memory that does not grow
// with its length. The first line that fails a check gives the code. The header is checked first,
// in the order of evidence: MALFORMED; KEYS; WITNESSES; LOG_PROOF, the checkpoint; STATEMENT,
// agentKey and the pin; DECISION, policies and passports; APPROVAL, approvals; WITNESSES;
// NOT_PROVEN; KEY or POLICY. Then each record: MALFORMED; RECORD; LOG_PROOF; STATEMENT, as in
// evidence, and agent, kid and sid are those of the header, and the statement follows those before
// as [statement.Sequence] demands: seq, prev, end and refused; DECISION; APPROVAL. In the end,
// MALFORMED when there are not as many lines as the header says.
//
// What is missing is no failure. A place that is not there, and that a later statement names in
// refused, is not missing: the service has refused it, and the agent says so. The verdict has the
// state of the session: complete when each place from 0 to end is there or was refused, open when
// each place from 0 to some place is there or was refused and none is the end, else missing. Before
// all of these is disobeyed: a call of the session was refused and ran all the same (package
// action). The file holds then too.
//
// What the service did is no failure of the file either: it may have recorded what it had reported
// to the agent that it refused. The verdict names those records.
//
// The verdict of a file whose first statement has continues names the session that this one goes on
// from. That another session goes on from this one cannot be seen here.
const SessionFormat = "attestd-session/v1"

const (
	maxLine    = 8 << 20 // bytes, with the line feed
	maxRecords = 1_000_000
)

var sidForm = lazyregexp.New(`^[A-Za-z0-9._~-]{1,128}$`)

// States of a session.
const (
	Complete = "complete"
	Open     = "open"
	Missing  = "missing"

	// A call was refused and ran all the same: Completeness is what the state would be.
	Disobeyed = "disobeyed"
)

// Session says which places of a session are in a file.
type Session struct {
	AgentID string `json:"agentId"`
	KeyID   string `json:"kid"`
	ID      string `json:"sid"`
	Records int64  `json:"records"`
	First   int64  `json:"first"` // lowest seq
	Last    int64  `json:"last"`  // highest seq
	State   string `json:"state"`
	// first and last of each range that is not there; the first 100
	Missing [][2]int64 `json:"missing"`
	// places that are not there and that a later statement names as refused by the service
	Refused   int        `json:"refused"`
	Continues *Continues `json:"continues,omitempty"` // nil for none
	// places and indexes of records that the service made although it had reported to the agent
	// that it refused them, the first 100; the index is -1 where the statement was too far back to
	// compare
	RecordedAfterRefusal [][2]int64 `json:"recordedAfterRefusal,omitempty"`
	// records since the key was in other hands; 0 where no revocation says so
	RecordsSince int64 `json:"recordsSince,omitempty"`

	Completeness string             `json:"completeness,omitempty"`
	Disobeyed    []action.Disobeyed `json:"disobeyed,omitempty"` // the first 100

	disobeyedCalls string // which calls disobeyed
	sealed         bool
	gaps           int // all ranges that are missing
}

// Continues names the session that another one goes on from.
type Continues struct {
	Session string `json:"sid"`
	KeyID   string `json:"kid"`
	Hash    string `json:"hash"` // of the compact JWS of its last statement
}

// Reader returns a reader of src in which IsSession finds the longest header.
func Reader(src io.Reader) *bufio.Reader { return bufio.NewReaderSize(src, maxLine) }

// IsSession reports whether a file is one of a session, by its first line, and reads nothing from
// src. What is no header of a session in its form may be one to this function, and the other way
// round: every check refuses it as MALFORMED.
func IsSession(src *bufio.Reader) bool { return begins(src, SessionFormat) }

// IsReport is IsSession of a report.
func IsReport(src *bufio.Reader) bool { return begins(src, ReportFormat) }

// begins reports whether the first line of a file has a format.
func begins(src *bufio.Reader, format string) (is bool) {
	for n := 512; ; n *= 2 {
		line, err := src.Peek(min(n, src.Size()))
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			line = line[:end]
		} else if err == nil && n < src.Size() {
			continue
		}
		if Bounded(line) == nil {
			_ = strictjson.EachMember(line, maxDepth, func(name, value []byte) {
				text, _ := strictjson.AsString(value)
				is = is || string(name) == "format" && text == format
			})
		}
		return is
	}
}

// CheckSession checks a file of a session while reading it.
func CheckSession(src io.Reader, t Trust) Verdict {
	c := newChecker(t)
	return c.verdict(c.checkSession(src))
}

// run is the state of the check of the records of a session.
type run struct {
	log        *Log
	leaves     chain.Leaves
	checkpoint tlog.Checkpoint
	keys       *keyChain
	places     statement.Sequence
	last       *statement.Statement
	older      int64 // statements of version 1
	exchanged  int64 // those of them that have a delegation
}

func (c *checker) checkSession(src io.Reader) error {
	lines := linereader.New(src, maxLine)
	line, err := lines.Next()
	if err != nil {
		return fail(Malformed, "header: %v", err)
	}
	s, checkpoint, err := c.readSession(line)
	if err != nil {
		return fail(Malformed, "header: %v", err)
	}
	r, err := c.sessionHeader(s, checkpoint)
	if err != nil {
		return err
	}
	c.session = s
	for n := range s.Records {
		if line, err = lines.Next(); err != nil {
			return fail(Malformed, "line %d: %v", n+2, err)
		}
		if err := c.sessionLine(r, line); err != nil {
			f := err.(*failure)
			return fail(f.code, "line %d: %s", n+2, f.reason)
		}
	}
	if _, err := lines.Next(); !errors.Is(err, io.EOF) {
		return fail(Malformed, "there are more lines than the header says")
	}
	s.close(&r.places)
	s.disobey(&c.disobeyed)
	c.addChecked("session %s of the agent %s: %d records, %s", s.ID, s.AgentID, s.Records, s)
	c.checkedSession(r)
	return nil
}

// checkedSession reports what the statements of a session cover, apart from their places.
func (c *checker) checkedSession(r *run) {
	s := c.session
	c.checkedDecisions()
	c.checkedApprovals()
	c.signedFor(r.last)
	if older := r.older; older > 0 && older < s.Records {
		c.addChecked("%d of its statements do not say which service they were made for: those are of the older form", older)
	}
	if n := r.exchanged; n > 0 {
		c.addChecked("%d of its statements cover the ID of a delegation alone, not what the delegation said", n)
	}
	if from := r.places.Continues; from != nil {
		c.addChecked("it %s", continuation(from))
	}
	c.addChecked("a session that goes on from this one may exist elsewhere")
	for _, at := range s.RecordedAfterRefusal {
		if at[1] < 0 {
			c.addChecked("the service recorded number %d, although it had told the agent that it refused a statement of that number; whether it is the same one is not compared here", at[0])
		} else {
			c.addChecked("the service recorded number %d, record %d, although it had told the agent that it refused it", at[0], at[1])
		}
	}
	if r.places.MoreRecorded {
		c.addChecked("there are more numbers that the service recorded although it had told the agent that it refused them")
	}
	if s.RecordsSince > 0 {
		c.signedBy.Since = r.keys.since.since
		c.addChecked("the key was in other hands since %s; %d of these records are of that time", r.keys.since, s.RecordsSince)
	}
}

// readSession parses the header.
func (c *checker) readSession(line []byte) (s *Session, checkpoint string, err error) {
	if err := c.sound(line); err != nil {
		return nil, "", err
	}
	in, f := new(form), &File{bothLogs: true, Log: Actions}
	m := value{in, "it", line}.object([]string{"format", "companyId", "agentId", "kid", "sid", "records", "checkpoint", "logs", "keys",
		"witnesses", "agentKey", "notProven"}, "policies", "passports", "approvals")
	if m["format"].text() != SessionFormat {
		in.refuse("format is not %q", SessionFormat)
	}
	f.CompanyID = m["companyId"].company()
	s = &Session{AgentID: m["agentId"].text(), KeyID: m["kid"].text(), ID: m["sid"].like(sidForm, "a session"), Records: m["records"].number()}
	if !jose.IsThumbprint(s.KeyID) {
		in.refuse("kid is not a thumbprint")
	}
	if s.Records < 1 || s.Records > maxRecords {
		in.refuse("records is not from 1 to %d", maxRecords)
	}
	f.readKeys(m["keys"])
	for _, v := range m["logs"].list(2) {
		f.Logs = append(f.Logs, v.log(f))
	}
	for _, v := range m["witnesses"].list(maxCosign) {
		f.Witnesses = append(f.Witnesses, v.text())
	}
	f.AgentKey, f.Policies, f.Approvals = m["agentKey"].agentKey(), m["policies"].policies(), m["approvals"].approvals()
	f.Passports = m["passports"].passports()
	for _, v := range m["notProven"].list(maxEntries) {
		f.NotProven = append(f.NotProven, v.text())
	}
	c.file = f
	return s, m["checkpoint"].text(), in.err
}

// sessionHeader makes the checks of the header that come after its form.
func (c *checker) sessionHeader(s *Session, signed string) (*run, error) {
	r := &run{}
	for _, step := range []func() error{
		c.keys, c.readWitnesses,
		func() (err error) {
			r.log = c.file.log(Actions)
			r.leaves = chain.Leaves{Keys: r.log.keySet()}
			if r.checkpoint, err = c.open(r.log, signed); err != nil {
				return fail(BadLogProof, "checkpoint: %v", err)
			}
			c.addChecked("the log root of %s, of %d records, is signed by the company's last key", r.checkpoint.Origin, r.checkpoint.Size)
			return nil
		},
		func() (err error) {
			if r.keys, err = c.keyChain(c.file.AgentKey.Entries, s.AgentID, s.KeyID); err == nil {
				c.signedBy, err = r.keys.verdict(c, "every record of this session")
			}
			return err
		},
		c.policies,
		c.readPassports,
		c.readApprovals,
		c.allCosigned,
		func() error {
			if !slices.Equal(c.file.NotProven, c.file.sessionNotProven()) {
				return fail(BadNotProven, "notProven is not the list for a session")
			}
			return nil
		},
		c.trusted,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// sessionLine checks one record and its place in the log and in the session.
func (c *checker) sessionLine(r *run, line []byte) error {
	if err := c.sound(line); err != nil {
		return fail(Malformed, "%v", err)
	}
	f := new(form)
	m := value{f, "it", line}.object([]string{"record", "proof"})
	record := m["record"].record()
	var proof []tlog.Hash
	for _, v := range m["proof"].list(maxSteps) {
		proof = append(proof, v.root())
	}
	if f.err != nil {
		return fail(Malformed, "%v", f.err)
	}
	in, err := c.signed(r.log, &record)
	if err != nil {
		return failRecord(err, "record %d: %v", record.Index, err)
	}
	if record.Index >= r.checkpoint.Size {
		return fail(BadLogProof, "record %d is not in a log of %d records", record.Index, r.checkpoint.Size)
	}
	leaf := r.leaves.Of(&record)
	if err := tlog.CheckInclusion(proof, r.checkpoint.Tree, record.Index, leaf.Hash()); err != nil {
		return fail(BadLogProof, "record %d: %v", record.Index, err)
	}
	if err := c.sessionPlace(r, &record, &in); err != nil {
		return fail(BadStatement, "record %d: %v", record.Index, err)
	}
	if err := c.decided(&record, &in); err != nil {
		return err
	}
	if err := c.approved(&record, &in); err != nil {
		return err
	}
	c.disobeyed.add(&record, &in)
	return nil
}

// sessionPlace checks the statement of a record, and its place after the one before.
func (c *checker) sessionPlace(r *run, record *chain.Record, in *content) error {
	s := c.session
	switch {
	case !in.stated:
		return errors.New("it has no statement")
	case in.agentID != s.AgentID:
		return fmt.Errorf("it is of the agent %q", in.agentID)
	}
	made, err := r.keys.signs(c.file.CompanyID, record, in)
	if err != nil {
		return err
	}
	if made.Session != s.ID {
		return fmt.Errorf("it is of the session %q", made.Session)
	}
	if err := r.places.Add(made, record.Index); err != nil {
		return err
	}
	r.last = made
	if made.Version() == 1 {
		r.older++
		if made.Delegation != "" {
			r.exchanged++
		}
	}
	if r.keys.stolenAt(record) != "" {
		s.RecordsSince++
	}
	c.acts(record, in)
	c.tally.add(c, record, in)
	return nil
}

// close sets what is known after the last record.
func (s *Session) close(places *statement.Sequence) {
	s.First, s.Last, s.sealed, s.Refused = places.First, places.Last, places.Sealed, places.Refused
	s.Missing, s.gaps = places.Missing()
	s.RecordedAfterRefusal = places.RecordedAfterRefusal
	if from := places.Continues; from != nil {
		s.Continues = &Continues{from.Session, from.KeyID, from.Hash}
	}
	switch {
	case s.gaps > 0:
		s.State = Missing
	case s.sealed:
		s.State = Complete
	default:
		s.State = Open
	}
}

// String says the state: complete, open at n, or missing a–b, after which calls disobeyed.
func (s *Session) String() string {
	state := s.State
	if state == Disobeyed {
		rest := *s
		rest.State = s.Completeness
		return fmt.Sprintf("disobeyed: %s; %s", s.disobeyedCalls, &rest)
	}
	switch state {
	case Complete:
		return fmt.Sprintf("complete: 0 to %d, sealed", s.Last) + s.refused()
	case Open:
		return fmt.Sprintf("open at %d", s.Last) + s.refused()
	}
	var parts []string
	for _, gap := range s.Missing {
		part := fmt.Sprint(gap[0])
		if gap[0] != gap[1] {
			part += fmt.Sprint("–", gap[1])
		}
		parts = append(parts, part)
	}
	text := "missing " + strings.Join(parts, ", ")
	switch more := s.gaps - len(s.Missing); {
	case more > 0 && len(parts) > 0:
		text += fmt.Sprintf(" and %d ranges more", more)
	case more > 0:
		text += fmt.Sprintf("%d ranges more than are remembered", more)
	}
	if !s.sealed {
		text += fmt.Sprintf(", open at %d", s.Last)
	}
	return text + s.refused()
}

// refused reads well after the state.
func (s *Session) refused() string {
	if s.Refused == 0 {
		return ""
	}
	return fmt.Sprintf(", %d refused", s.Refused)
}

func (f *File) sessionNotProven() []string {
	list := []string{
		"That the agent did nothing else: this file shows one session of one key, not what came before it, after it or beside it.",
		"That nothing followed in a session that is open: only its end, which the agent signs, shows that.",
		"That what payloads say is true: only that they were signed, and that the service was given them, and when by the service's clock.",
		"That the service's clock was right: every time in this file that is not a witness's is the operator's word.",
		"That nobody else had the company's key, nor that a key was not declared compromised after this file was made.",
		"That there is no other history: only witnesses whom you chose, or a checkpoint that you kept, show that. Two appliances of one owner are not independent.",
		"That no other record of the control log bears on this session: what is missing here may stand there.",
		notOrdered,
		notOnce,
		notOwnKey,
	}
	if f.Approvals != nil {
		list = append(list, notUnderstood, notUsedAgain)
	}
	return list
}

// SessionFile is the header of a file of a session.
type SessionFile struct {
	AgentID, KeyID, ID string
	Records            int64
	Checkpoint         string // of actions, signed
	// CompanyID, Logs, Keys, Witnesses, AgentKey, Policies, Passports and Approvals
	File *File
}

// SessionWriter writes a file of a session, one record at a time.
type SessionWriter struct {
	dst  *bufio.Writer
	line writer
	left int64
}

// NewSessionWriter writes the header. It sets notProven.
func NewSessionWriter(dst io.Writer, s *SessionFile) (*SessionWriter, error) {
	w := &SessionWriter{dst: bufio.NewWriterSize(dst, 64<<10), left: s.Records}
	s.File.bothLogs = true
	w.line.object(func(m *members) {
		m.text("format", SessionFormat)
		m.text("companyId", s.File.CompanyID)
		m.text("agentId", s.AgentID)
		m.text("kid", s.KeyID)
		m.text("sid", s.ID)
		m.number("records", s.Records)
		m.text("checkpoint", s.Checkpoint)
		m.list("logs", s.File.writeLogs)
		m.list("keys", s.File.writeKeys)
		m.texts("witnesses", s.File.Witnesses)
		m.object("agentKey", func(m *members) { m.entries(s.File.AgentKey.Entries) })
		if s.File.Policies != nil {
			m.object("policies", func(m *members) { m.entries(s.File.Policies.Entries) })
		}
		if s.File.Passports != nil {
			m.object("passports", func(m *members) { m.entries(s.File.Passports.Entries) })
		}
		if s.File.Approvals != nil {
			m.object("approvals", s.File.Approvals.write)
		}
		m.texts("notProven", s.File.sessionNotProven())
	})
	for i, b := range w.line { // between tokens, which no hash covers
		if b == '\n' || b == '\r' {
			w.line[i] = ' '
		}
	}
	return w, w.end()
}

// Write writes a record with its inclusion proof in the tree of the checkpoint. Records MUST come
// in the order of seq.
func (w *SessionWriter) Write(r *chain.Record, proof []tlog.Hash) error {
	if w.left--; w.left < 0 {
		return errors.New("more records than the header of the session says")
	}
	w.line = append(r.AppendLine(append(w.line, `{"record":`...)), `,"proof":[`...)
	for i, h := range proof {
		if i > 0 {
			w.line = append(w.line, ',')
		}
		w.line = append(append(append(w.line, '"'), h.String()...), '"')
	}
	w.line = append(w.line, "]}"...)
	return w.end()
}

// end writes the line.
func (w *SessionWriter) end() error {
	w.line = append(w.line, '\n')
	if len(w.line) > maxLine {
		return fmt.Errorf("a line of the session is longer than %d bytes", maxLine)
	}
	_, err := w.dst.Write(w.line)
	w.line = w.line[:0]
	return err
}

// Close writes what is left to write. It does not close the writer below.
func (w *SessionWriter) Close() error {
	if w.left != 0 {
		return fmt.Errorf("%d records of the session are missing", w.left)
	}
	return w.dst.Flush()
}

const (
	maxDisobeyed   = 100 // calls in a verdict
	namedDisobeyed = 10  // calls in a sentence
)

// disobeyed finds the calls in a file that were refused and ran all the same; see package action.
// The file holds all the same: that a refusal was not obeyed is what its records say.
type disobeyed struct {
	tracker action.Tracker
	calls   []action.Disobeyed // the first ones
	count   int
}

// add adds the next record of actions, whose hash was checked.
func (d *disobeyed) add(r *chain.Record, in *content) {
	call, ok := action.Read(in.agentID, in.actionType, in.payload, in.decision)
	if !ok {
		return
	}
	found, ok := d.tracker.Add(r.Index, &call)
	if !ok {
		return
	}
	if d.count++; d.count <= maxDisobeyed {
		d.calls = append(d.calls, found)
	}
}

// String says which calls disobeyed: refused at record 17, done at record 19.
func (d *disobeyed) String() string {
	calls := make([]string, 0, namedDisobeyed)
	for _, call := range d.calls[:min(len(d.calls), namedDisobeyed)] {
		calls = append(calls, fmt.Sprintf("refused at record %d, done at record %d", call.Refused, call.Done))
	}
	text := strings.Join(calls, "; ")
	if more := d.count - len(calls); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// checkedDisobeyed says which calls of a report disobeyed, if any.
func (c *checker) checkedDisobeyed() {
	switch c.disobeyed.count {
	case 0:
	case 1:
		c.addChecked("a call that was refused ran all the same: %s", &c.disobeyed)
	default:
		c.addChecked("%d calls that were refused ran all the same: %s", c.disobeyed.count, &c.disobeyed)
	}
}

// disobey gives a session whose calls disobeyed that state, before every other.
func (s *Session) disobey(d *disobeyed) {
	if d.count > 0 {
		s.Completeness, s.State, s.Disobeyed, s.disobeyedCalls = s.State, Disobeyed, d.calls, d.String()
	}
}
