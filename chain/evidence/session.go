package evidence

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"attestd/chain"
	"attestd/chain/action"
	"attestd/chain/tlog"
	"attestd/crypto/jose"
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
//	        "keys","witnesses","agentKey","notProven"}
//	        with companyId, logs (actions, control), keys, witnesses and agentKey as in evidence;
//	        kid         thumbprint of the key that signed all statements
//	        sid         session, as in statements
//	        records     how many lines follow: 1 to 1,000,000
//	        checkpoint  signed checkpoint of actions, with cosignatures where there are any
//	line    {"record","proof"}
//	        proof       ["<base64>"…]: RFC 6962 inclusion proof of the record's leaf in the checkpoint's tree
//
// The lines are in the order of seq. A checker reads the file once, with memory that does not grow
// with its length. The first line that fails a check gives the code. The header is checked first,
// in the order of evidence: MALFORMED; KEYS; WITNESSES; LOG_PROOF, the checkpoint; STATEMENT,
// agentKey and the pin; WITNESSES; NOT_PROVEN; KEY or POLICY. Then each record: MALFORMED; RECORD;
// LOG_PROOF; STATEMENT, as in evidence, and agent, kid and sid are those of the header, seq is
// above that of the line before, prev is the hash of the statement before where that has the seq
// before, and nothing follows a statement with end. In the end, MALFORMED when there are not as
// many lines as the header says.
//
// What is missing is no failure. The verdict has the state of the session: complete when 0 to end
// are all there, open when 0 to some place are and none is the end, else missing. Before all of
// these stands disobeyed: a call of the session was refused and ran all the same (package action).
// The file holds then too.
const SessionFormat = "attestd-session/v1"

const (
	maxLine    = 8 << 20 // bytes, with the line feed
	maxRecords = 1_000_000
	maxMissing = 100 // ranges in a verdict
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

	Completeness string             `json:"completeness,omitempty"`
	Disobeyed    []action.Disobeyed `json:"disobeyed,omitempty"` // the first 100

	says   string // which calls disobeyed
	sealed bool
	gaps   int // all ranges that are missing
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
	index      int64  // of the record before
	hash       string // of the statement before
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
		if err := c.sessionLine(r, line, n == 0); err != nil {
			f := err.(*failure)
			return fail(f.code, "line %d: %s", n+2, f.reason)
		}
	}
	if _, err := lines.Next(); !errors.Is(err, io.EOF) {
		return fail(Malformed, "there are more lines than the header says")
	}
	s.close()
	s.disobey(&c.disobeyed)
	c.say("session %s of the agent %s: %d records, %s", s.ID, s.AgentID, s.Records, s)
	return nil
}

// readSession parses the header.
func (c *checker) readSession(line []byte) (s *Session, checkpoint string, err error) {
	if err := c.sound(line); err != nil {
		return nil, "", err
	}
	in, f := new(form), &File{bothLogs: true, Log: Actions}
	m := value{in, "it", line}.object([]string{"format", "companyId", "agentId", "kid", "sid", "records", "checkpoint", "logs", "keys",
		"witnesses", "agentKey", "notProven"})
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
	f.AgentKey = m["agentKey"].agentKey()
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
			c.say("the root of the log %s of %d records is signed by the company's last key", r.checkpoint.Origin, r.checkpoint.Size)
			return nil
		},
		func() (err error) {
			if r.keys, err = c.keyChain(c.file.AgentKey.Entries, s.AgentID, s.KeyID); err == nil {
				c.signedBy, err = r.keys.verdict(c, "every record of this session")
			}
			return err
		},
		c.allCosigned,
		func() error {
			if !slices.Equal(c.file.NotProven, sessionNotProven()) {
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
func (c *checker) sessionLine(r *run, line []byte, isFirst bool) error {
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
	if err := c.sessionPlace(r, &record, &in, isFirst); err != nil {
		return fail(BadStatement, "record %d: %v", record.Index, err)
	}
	c.disobeyed.add(&record, &in)
	return nil
}

// sessionPlace checks the statement of a record, and its place after the one before.
func (c *checker) sessionPlace(r *run, record *chain.Record, in *content, isFirst bool) error {
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
	switch {
	case made.Session != s.ID:
		return fmt.Errorf("it is of the session %q", made.Session)
	case isFirst:
		s.First = made.Seq
		s.skip(0, made.Seq)
	case made.Seq == s.Last:
		return fmt.Errorf("the agent's key signed two statements with the seq %d: this one, and that of record %d", s.Last, r.index)
	case made.Seq < s.Last:
		return fmt.Errorf("its seq %d stands after %d", made.Seq, s.Last)
	case s.sealed:
		return fmt.Errorf("its seq %d follows the end of the session, which is %d", made.Seq, s.Last)
	case made.Seq > s.Last+1:
		s.skip(s.Last+1, made.Seq)
	case made.Previous != r.hash:
		return fmt.Errorf("its prev is not the hash of the statement in record %d", r.index)
	}
	s.Last, s.sealed, r.index, r.hash = made.Seq, made.End, record.Index, made.Hash()
	return nil
}

// skip notes that the places from one to before another are missing.
func (s *Session) skip(from, to int64) {
	if from == to {
		return
	}
	if s.gaps++; s.gaps <= maxMissing {
		s.Missing = append(s.Missing, [2]int64{from, to - 1})
	}
}

// close sets the state after the last record.
func (s *Session) close() {
	switch {
	case s.gaps > 0:
		s.State = Missing
	case s.sealed:
		s.State = Complete
	default:
		s.State = Open
	}
	if s.Missing == nil {
		s.Missing = [][2]int64{}
	}
}

// String says the state: complete, open at n, or missing a–b, after which calls disobeyed.
func (s *Session) String() string {
	state := s.State
	if state == Disobeyed {
		rest := *s
		rest.State = s.Completeness
		return fmt.Sprintf("disobeyed: %s; %s", s.says, &rest)
	}
	switch state {
	case Complete:
		return fmt.Sprintf("complete: 0 to %d, sealed", s.Last)
	case Open:
		return fmt.Sprintf("open at %d", s.Last)
	}
	text := "missing "
	for i, gap := range s.Missing {
		if i > 0 {
			text += ", "
		}
		if text += fmt.Sprint(gap[0]); gap[0] != gap[1] {
			text += fmt.Sprint("–", gap[1])
		}
	}
	if s.gaps > len(s.Missing) {
		text += fmt.Sprintf(" and %d ranges more", s.gaps-len(s.Missing))
	}
	if !s.sealed {
		text += fmt.Sprintf(", open at %d", s.Last)
	}
	return text
}

func sessionNotProven() []string {
	return []string{
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
}
