package mcpproxy

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// message is what the proxy reads of a JSON-RPC 2.0 message. Its values are parts of the line, as
// they are spelt there.
type message struct {
	raw    []byte
	method string // "" of an answer
	id     []byte // nil where there is none, or one that is neither a string nor a number
	params []byte
	result []byte // of an answer, that or fault
	fault  []byte
	hasID  bool // of whatever kind

	// flaw says why two readers could see two messages in it; "" is the flaw of none.
	flaw string

	// outcome says that some reader finds a result or an error in it.
	outcome bool
}

// Flaws of messages, as the subject of their sentence is the message.
const (
	// or also with other capitals, which some readers take for the same
	flawTwice    = "a member stands in it twice"
	flawReturn   = "a carriage return stands inside its line"
	flawID       = "its ID is neither a string nor a number"
	flawMethod   = "its method is no string"
	flawBoth     = "it is a request and an answer at once"
	flawOutcomes = "it has a result and an error"
	flawNeither  = "it is neither a request nor an answer"
)

// maxBatch bounds the messages in one line.
const maxBatch = 1000

var errBatch = errors.New("more than 1000 messages in a line")

// readLine reads a line: one message, or an array of them, which revisions before 2025-06-18 allow.
// It takes escapes of lone surrogates, for such calls are carried out too. A line that is no UTF-8
// is no JSON (RFC 8259 section 8.1).
func readLine(line []byte) (messages []message, batch bool, err error) {
	if !utf8.Valid(line) {
		return nil, false, errors.New("the line is no UTF-8")
	}
	if messages, batch, err = readMessages(line); err != nil || !returnInside(line) {
		return messages, batch, err
	}
	for i := range messages {
		messages[i].flaw = flawReturn
	}
	return messages, batch, nil
}

// returnInside reports whether a carriage return stands in a line elsewhere than before the line
// feed at its end. Readers with universal newlines, such as those of Python, take it for the end of
// a line.
func returnInside(line []byte) bool {
	return bytes.IndexByte(bytes.TrimSuffix(line, []byte("\r\n")), '\r') >= 0
}

// isBlank reports whether a line holds nothing that any reader takes for a message.
func isBlank(line []byte) bool {
	return len(bytes.Trim(line, " \t\n")) == 0 || string(bytes.TrimLeft(line, " \t")) == "\r\n"
}

func readMessages(line []byte) (messages []message, batch bool, err error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(line), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if batch = d.PeekKind() == '['; !batch {
		var m message
		if m.raw, err = d.ReadValue(); err == nil {
			err = m.read()
			messages = append(messages, m)
		}
		return messages, false, errors.Join(err, atEnd(d))
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, true, err
	}
	for d.PeekKind() != ']' {
		if len(messages) == maxBatch {
			return nil, true, errBatch
		}
		var m message
		if m.raw, err = d.ReadValue(); err != nil {
			return nil, true, err
		}
		if err := m.read(); err != nil {
			return nil, true, err
		}
		messages = append(messages, m)
	}
	_, err = d.ReadToken()
	return messages, true, errors.Join(err, atEnd(d))
}

func atEnd(d *jsontext.Decoder) error {
	if _, err := d.ReadToken(); err != io.EOF {
		return errors.New("more than one value")
	}
	return nil
}

// read reads the members of m.raw. One that is no object has none.
func (m *message) read() error {
	methodIsText := true
	seen, twice, err := members(m.raw, map[string]func([]byte){
		"method": func(v []byte) { m.method, methodIsText = text(v), v[0] == '"' },
		"id":     func(v []byte) { m.id = identifier(v) },
		"params": func(v []byte) { m.params = v },
		"result": func(v []byte) { m.result = v },
		"error":  func(v []byte) { m.fault = v },
	})
	// some servers write both, and one of them empty
	if m.result != nil && string(m.fault) == "null" {
		m.fault = nil
	} else if m.fault != nil && string(m.result) == "null" {
		m.result = nil
	}
	m.hasID, m.outcome = seen["id"], seen["result"] || seen["error"]
	switch {
	case twice:
		m.flaw = flawTwice
	case !methodIsText:
		m.flaw = flawMethod
	case seen["method"] && m.outcome:
		m.flaw = flawBoth
	case m.result != nil && m.fault != nil:
		m.flaw = flawOutcomes
	case seen["method"] && m.hasID && m.id == nil:
		m.flaw = flawID
	case m.hasID && !seen["method"] && !m.outcome:
		m.flaw = flawNeither
	}
	return err
}

// members calls the function of each member of an object that has one, and of nothing else none.
// Seen are those of wanted that stand there, be it with other capitals. Of one that stands there
// twice the last counts; twice says that there is such a one.
func members(object []byte, wanted map[string]func(value []byte)) (seen map[string]bool, twice bool, err error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() != '{' {
		return nil, false, nil
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, false, err
	}
	seen = make(map[string]bool, len(wanted))
	for d.PeekKind() != '}' {
		quoted, err := d.ReadValue()
		if err != nil {
			return seen, twice, err
		}
		name := text(quoted)
		value, err := d.ReadValue()
		if err != nil {
			return seen, twice, err
		}
		take := wanted[name]
		for known := range wanted {
			if strings.EqualFold(known, name) {
				twice = twice || seen[known] || take == nil
				seen[known] = true
			}
		}
		if take != nil {
			take(value[:len(value):len(value)])
		}
	}
	return seen, twice, nil
}

// text is the text of a JSON string, "" of another value. What is not well-formed in it becomes
// U+FFFD.
func text(value []byte) string {
	if len(value) == 0 || value[0] != '"' {
		return ""
	}
	s, _ := jsontext.AppendUnquote(nil, value) // its error is text that is not well-formed
	return string(s)
}

// identifier returns a request's ID in one spelling, so that an answer which spells it in another
// is found: a string keeps its quotation marks, so that "1" is not 1.
func identifier(value []byte) []byte {
	id := jsontext.Value(bytes.Clone(value))
	switch id.Kind() {
	case '"':
		if id.Canonicalize(jsontext.AllowInvalidUTF8(true)) != nil {
			return value
		}
	case '0':
		// an integer stays as it is, for it may be longer than a double keeps
		if bytes.ContainsAny(id, ".eE") && id.Canonicalize() != nil {
			return value
		}
	default:
		return nil
	}
	return id
}
