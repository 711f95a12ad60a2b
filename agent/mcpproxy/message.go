package mcpproxy

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// message is what the proxy reads of a JSON-RPC 2.0 message. Its values are parts of the line, as they are spelt there.
type message struct {
	raw    []byte
	method string // "" of an answer
	id     []byte // nil where there is none, or one that is neither a string nor a number
	params []byte
	result []byte // of an answer, that or fault
	fault  []byte

	// ambiguous says that two readers could see two messages in it: a member that matters stands there twice, or also with other capitals,
	// which some servers take for the same.
	ambiguous bool
}

// maxBatch bounds the messages in one line.
const maxBatch = 1000

var errBatch = errors.New("more than 1000 messages in a line")

// readLine reads a line: one message, or an array of them, which revisions before 2025-06-18 allow. It takes text that is not well-formed,
// for such calls are carried out too.
func readLine(line []byte) (messages []message, batch bool, err error) {
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
func (m *message) read() (err error) {
	m.ambiguous, err = members(m.raw, map[string]func([]byte){
		"method": func(v []byte) { m.method = text(v) },
		"id":     func(v []byte) { m.id = identifier(v) },
		"params": func(v []byte) { m.params = v },
		"result": func(v []byte) { m.result = v },
		"error":  func(v []byte) { m.fault = v },
	})
	return err
}

// answers reports whether m is the answer to a request.
func (m *message) answers() bool {
	return m.method == "" && m.id != nil && (m.result != nil || m.fault != nil)
}

// members calls the function of each member of an object that has one, and of nothing else none. Of one that stands there twice the last
// counts; ambiguous says that there is such a one.
func members(object []byte, wanted map[string]func(value []byte)) (ambiguous bool, err error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() != '{' {
		return false, nil
	}
	if _, err := d.ReadToken(); err != nil {
		return false, err
	}
	seen := make(map[string]bool, len(wanted))
	for d.PeekKind() != '}' {
		quoted, err := d.ReadValue()
		if err != nil {
			return ambiguous, err
		}
		name := text(quoted)
		value, err := d.ReadValue()
		if err != nil {
			return ambiguous, err
		}
		take := wanted[name]
		for known := range wanted {
			if strings.EqualFold(known, name) {
				ambiguous = ambiguous || seen[known] || take == nil
				seen[known] = true
			}
		}
		if take != nil {
			take(value[:len(value):len(value)])
		}
	}
	return ambiguous, nil
}

// text is the text of a JSON string, "" of another value. What is not well-formed in it becomes U+FFFD.
func text(value []byte) string {
	if len(value) == 0 || value[0] != '"' {
		return ""
	}
	s, _ := jsontext.AppendUnquote(nil, value) // its error is text that is not well-formed
	return string(s)
}

// identifier returns a request's ID in one spelling, so that an answer which spells it in another is found: a string keeps its quotation
// marks, so that "1" is not 1.
func identifier(value []byte) []byte {
	id := jsontext.Value(bytes.Clone(value))
	switch id.Kind() {
	case '"':
		if id.Canonicalize(jsontext.AllowInvalidUTF8(true)) != nil {
			return value
		}
	case '0':
		if bytes.ContainsAny(id, ".eE") && id.Canonicalize() != nil { // an integer stays as it is, for it may be longer than a double keeps
			return value
		}
	default:
		return nil
	}
	return id
}

// toolCall is what the proxy reads of the params of a tools/call.
type toolCall struct {
	name      string
	arguments []byte
	toolUseID string // of the model's call that it serves, where the client says so
	trace     string // W3C traceparent
	modern    bool   // of a revision from 2026-07-28 on, which has no initialize
	state     []byte // requestState: nil where it is no answer to input_required
	again     bool   // brings what the server has asked for
	ambiguous bool
}

// protocolVersion is the member of _meta in which requests of the revisions from 2026-07-28 on name their revision.
const protocolVersion = "io.modelcontextprotocol/protocolVersion"

func readToolCall(params []byte) (c toolCall) {
	var meta []byte
	// The line was read whole before, so what is in it is JSON.
	c.ambiguous, _ = members(params, map[string]func([]byte){
		"name":           func(v []byte) { c.name = text(v) },
		"arguments":      func(v []byte) { c.arguments = v },
		"_meta":          func(v []byte) { meta = v },
		"requestState":   func(v []byte) { c.state, c.again = v, true },
		"inputResponses": func([]byte) { c.again = true },
	})
	_, _ = members(meta, map[string]func([]byte){
		"claudecode/toolUseId": func(v []byte) { c.toolUseID = text(v) },
		"traceparent":          func(v []byte) { c.trace = text(v) },
		protocolVersion:        func([]byte) { c.modern = true },
	})
	return c
}

// readCancelled reads which request a notifications/cancelled is about, and why it is given up.
func readCancelled(params []byte) (id []byte, reason string) {
	_, _ = members(params, map[string]func([]byte){
		"requestId": func(v []byte) { id = identifier(v) },
		"reason":    func(v []byte) { reason = text(v) },
	})
	return id, reason
}

// toolResult is what the proxy reads of the result of a tools/call.
type toolResult struct {
	failed     bool // isError: the tool has failed, and the agent reads how
	needsInput bool // input_required: not an outcome yet
	state      []byte
	task       string // that the call has become (revision 2025-11-25): not an outcome either
}

// inputRequired is the resultType of a result that is not an outcome yet.
const inputRequired = "input_required"

func readToolResult(result []byte) (r toolResult) {
	content := false
	_, _ = members(result, map[string]func([]byte){
		"isError":      func(v []byte) { r.failed = string(v) == "true" },
		"resultType":   func(v []byte) { r.needsInput = text(v) == inputRequired },
		"requestState": func(v []byte) { r.state = v },
		"task":         func(v []byte) { r.task = readTaskID(v) },
		"content":      func([]byte) { content = true },
	})
	if content {
		r.task = "" // a tool may call a member of its result so
	}
	return r
}

// readTaskID reads the ID of a task, or of the task that the params of a request are about.
func readTaskID(object []byte) (id string) {
	_, _ = members(object, map[string]func([]byte){"taskId": func(v []byte) { id = text(v) }})
	return id
}

// readFault reads an error object of JSON-RPC.
func readFault(fault []byte) (code, message string, data []byte) {
	_, _ = members(fault, map[string]func([]byte){
		"code":    func(v []byte) { code = string(v) },
		"message": func(v []byte) { message = text(v) },
		"data":    func(v []byte) { data = v },
	})
	return code, message, data
}
