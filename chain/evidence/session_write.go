package evidence

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"attestd/chain"
	"attestd/chain/tlog"
)

// SessionFile is the header of a file of a session.
type SessionFile struct {
	AgentID, KeyID, ID string
	Records            int64
	Checkpoint         string // of actions, signed
	File               *File  // CompanyID, Logs, Keys, Witnesses and AgentKey
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
		m.texts("notProven", sessionNotProven())
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
