package mcpproxy

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// message is a parsed JSON-RPC 2.0 message. Its values are slices of the line.
type message struct {
	raw    []byte
	method string // "" in a response
	id     []byte // nil if absent, or neither a string nor a number
	params []byte
	result []byte // a response has result or fault
	fault  []byte
	hasID  bool // of any type
	// confused says that readers could take its ID for another one's.
	confused bool

	// flaw says why two parsers could read the message differently, or is "".
	flaw string

	// outcome says that some parser finds a result or an error in it.
	outcome bool
}

// Flaws of messages. "It" is the message.
const (
	// also in a different case, which some parsers ignore
	flawDuplicate      = "it has a duplicate member"
	flawCarriageReturn = "its line contains a carriage return"
	flawID             = "its ID is neither a string nor a number"
	flawConfused       = "its ID is no integer between -(2^53-1) and 2^53-1"
	flawMethod         = "its method is not a string"
	flawBoth           = "it is both a request and a response"
	flawOutcomes       = "it has a result and an error"
	flawNeither        = "it is neither a request nor a response"
	flawNoObject       = "it is no JSON object"
	flawCall           = "its method resembles tools/call"
)

// maxBatch bounds the messages in one line.
const maxBatch = 1000

var (
	errBatch      = errors.New("more than 1000 messages in a line")
	errEmptyBatch = errors.New("a batch without a message")
)

// readLine parses a line: one message, or an array of messages, which revisions before 2025-06-18
// allow. It accepts escapes of lone surrogates, because servers execute such calls. A line that is
// not UTF-8 is not JSON (RFC 8259 section 8.1).
func readLine(line []byte) (messages []message, batch bool, err error) {
	if messages, batch, err = readBody(line); err != nil || !hasCarriageReturn(line) {
		return messages, batch, err
	}
	for i := range messages {
		messages[i].flaw = flawCarriageReturn
	}
	return messages, batch, nil
}

// readBody parses what readLine does where a carriage return ends no line, as in an HTTP body.
func readBody(body []byte) (messages []message, batch bool, err error) {
	if !utf8.Valid(body) {
		return nil, false, errors.New("it is not UTF-8")
	}
	return readMessages(body)
}

// hasCarriageReturn reports whether a line has a carriage return other than in its CRLF at the end.
// Readers with universal newlines, such as Python's, treat it as the end of a line.
func hasCarriageReturn(line []byte) bool {
	return bytes.IndexByte(bytes.TrimSuffix(line, []byte("\r\n")), '\r') >= 0
}

// isBlank reports whether a line has no message for any parser.
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
	if err = errors.Join(err, atEnd(d)); err == nil && len(messages) == 0 {
		err = errEmptyBatch
	}
	return messages, true, err
}

func atEnd(d *jsontext.Decoder) error {
	if _, err := d.ReadToken(); err != io.EOF {
		return errors.New("more than one value")
	}
	return nil
}

// read parses the members of m.raw. A value that is not an object is no message: a reader that
// descends into nested arrays would find calls there.
func (m *message) read() error {
	if m.raw[0] != '{' {
		m.flaw = flawNoObject
		return nil
	}
	methodIsText := true
	seen, duplicate, err := members(m.raw, map[string]func([]byte){
		"method": func(v []byte) { m.method, methodIsText = text(v), v[0] == '"' },
		"id":     func(v []byte) { m.id, m.confused = identifier(v), !isDistinct(v) },
		"params": func(v []byte) { m.params = v },
		"result": func(v []byte) { m.result = v },
		"error":  func(v []byte) { m.fault = v },
	})
	// some servers send both, one of them null
	if m.result != nil && string(m.fault) == "null" {
		m.fault = nil
	} else if m.fault != nil && string(m.result) == "null" {
		m.result = nil
	}
	m.hasID, m.outcome = seen["id"], seen["result"] || seen["error"]
	switch {
	case duplicate:
		m.flaw = flawDuplicate
	case !methodIsText:
		m.flaw = flawMethod
	case seen["method"] && m.outcome:
		m.flaw = flawBoth
	case m.result != nil && m.fault != nil:
		m.flaw = flawOutcomes
	case seen["method"] && m.hasID && m.id == nil:
		m.flaw = flawID
	case !seen["method"] && !m.outcome:
		m.flaw = flawNeither
	case m.method != toolsCall && resembles(m.method, toolsCall):
		m.flaw = flawCall
	}
	return err
}

// refuseConfused gives the client's requests a flaw whose IDs readers could confuse, so that no
// outcome is recorded for another call. They lose the ID, because the client could take an error
// with it for the response to another request.
func refuseConfused(messages []message) {
	for i := range messages {
		if m := &messages[i]; m.method != "" && m.confused {
			m.id, m.flaw = nil, cmp.Or(m.flaw, flawConfused)
		}
	}
}

// isDistinct reports whether every reader distinguishes an ID from all others: a text, or an
// integer that a double represents, also with a fraction of zeros, and not -0. Values of other
// types have a flaw of their own.
func isDistinct(id []byte) bool {
	if id[0] != '-' && (id[0] < '0' || id[0] > '9') {
		return true
	}
	digits, fraction, _ := strings.Cut(string(id), ".")
	n, err := strconv.ParseInt(digits, 10, 64)
	return err == nil && n < 1<<53 && n > -1<<53 && digits != "-0" && strings.Trim(fraction, "0") == ""
}

// toolsCall is the method of the calls that are recorded.
const toolsCall = "tools/call"

// resembles reports whether a lenient reader could take a text for a name: one that ignores case,
// spaces, and characters that are invisible or malformed.
func resembles(text, name string) bool {
	return strings.EqualFold(name, strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsGraphic(r) || unicode.IsSpace(r) || unicode.IsMark(r) {
			return -1
		}
		return r
	}, text))
}

// members calls the functions in wanted with the values of an object's members. seen has the wanted
// names that occur in any case. duplicate reports whether one occurs more than once; then the last
// value is used. Other JSON values have no members.
func members(object []byte, wanted map[string]func(value []byte)) (seen map[string]bool, duplicate bool, err error) {
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
			return seen, duplicate, err
		}
		name := text(quoted)
		value, err := d.ReadValue()
		if err != nil {
			return seen, duplicate, err
		}
		set := wanted[name]
		for known := range wanted {
			if strings.EqualFold(known, name) {
				duplicate = duplicate || seen[known] || set == nil
				seen[known] = true
			}
		}
		if set != nil {
			set(value[:len(value):len(value)])
		}
	}
	return seen, duplicate, nil
}

// text returns the text of a JSON string, or "" for another value. Malformed parts become U+FFFD.
func text(value []byte) string {
	if len(value) == 0 || value[0] != '"' {
		return ""
	}
	s, _ := jsontext.AppendUnquote(nil, value) // the error reports malformed text
	return string(s)
}

// identifier returns the canonical form of a request's ID, which a response may spell differently.
// A string keeps its quotation marks, so "1" differs from 1.
func identifier(value []byte) []byte {
	id := jsontext.Value(bytes.Clone(value))
	switch id.Kind() {
	case '"':
		if id.Canonicalize(jsontext.AllowInvalidUTF8(true)) != nil {
			return value
		}
	case '0':
		// an integer is not changed, because a double may not represent it
		if bytes.ContainsAny(id, ".eE") && id.Canonicalize() != nil {
			return value
		}
	default:
		return nil
	}
	return id
}

// toolCall has the parsed params of a tools/call.
type toolCall struct {
	name      string
	arguments []byte
	toolUseID string // the ID of the model's tool use, if the client sends it
	trace     string // W3C traceparent
	modern    bool   // revision 2026-07-28 or later, which has no initialize
	state     []byte // requestState; nil unless the call continues after input_required
	retry     bool   // it brings the input that the server has requested
	progress  []byte // progressToken; nil unless the client asks for progress
	flaw      string // why two parsers could read the call differently, or ""
}

// protocolVersion is the member of _meta with the revision in requests of 2026-07-28 and later.
const protocolVersion = "io.modelcontextprotocol/protocolVersion"

func readToolCall(params []byte) (c toolCall) {
	var meta []byte
	wellFormed := false
	// The line has been parsed, so there are no errors.
	_, duplicate, _ := members(params, map[string]func([]byte){
		"name":           func(v []byte) { c.name, wellFormed = text(v), isText(v) },
		"arguments":      func(v []byte) { c.arguments = v },
		"_meta":          func(v []byte) { meta = v },
		"requestState":   func(v []byte) { c.state, c.retry = v, true },
		"inputResponses": func([]byte) { c.retry = true },
	})
	switch {
	case duplicate:
		c.flaw = flawDuplicate
	case !wellFormed:
		c.flaw = "it names no tool"
	}
	_, _, _ = members(meta, map[string]func([]byte){
		"claudecode/toolUseId": func(v []byte) { c.toolUseID = text(v) },
		"traceparent":          func(v []byte) { c.trace = text(v) },
		"progressToken":        func(v []byte) { c.progress = identifier(v) },
		protocolVersion:        func([]byte) { c.modern = true },
	})
	return c
}

// isText reports whether a value is a well-formed JSON string.
func isText(value []byte) bool {
	if value[0] != '"' {
		return false
	}
	_, err := jsontext.AppendUnquote(nil, value)
	return err == nil
}

// readCancelled parses the params of notifications/cancelled.
func readCancelled(params []byte) (id []byte, reason string, duplicate bool) {
	_, duplicate, _ = members(params, map[string]func([]byte){
		"requestId": func(v []byte) { id = identifier(v) },
		"reason":    func(v []byte) { reason = text(v) },
	})
	return id, reason, duplicate
}

// toolResult has the parsed result of a tools/call.
type toolResult struct {
	failed     bool // isError
	needsInput bool // input_required, which is not an outcome
	state      []byte
	task       string // ID of the task that the call has become, which is not an outcome either
}

// Members of results that are not outcomes. A result with another non-empty member is recorded as
// the outcome, because a client may show it to its model.
var (
	inputMembers  = []string{"resultType", "inputRequests", "requestState", "_meta"}
	taskMembers   = []string{"resultType", "task", "_meta"}
	statusMembers = []string{
		"resultType", "taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttl", "ttlMs", "pollInterval", "pollIntervalMs",
		"inputRequests", "requestState", "_meta",
	}
)

func readToolResult(result []byte) (r toolResult) {
	kind, task := "", ""
	_, duplicate, _ := members(result, map[string]func([]byte){
		"isError":      func(v []byte) { r.failed = string(v) == "true" },
		"resultType":   func(v []byte) { kind = text(v) },
		"requestState": func(v []byte) { r.state = v },
		"task":         func(v []byte) { task, _ = readTaskID(v) },
	})
	switch {
	case duplicate:
	case kind == "input_required":
		r.needsInput = hasOnly(result, inputMembers)
	case task != "" && hasOnly(result, taskMembers):
		r.task = task
	}
	return r
}

// isStatus reports whether a result of a tasks/ request has only the status of the task.
func isStatus(result []byte) bool { return hasOnly(result, statusMembers) }

// hasOnly reports whether a value is an object whose members have these names, each at most once,
// or are empty: some servers write "content":[] into each result.
func hasOnly(object []byte, names []string) bool {
	if len(object) == 0 || object[0] != '{' {
		return false
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	left := slices.Clone(names)
	_, err := d.ReadToken()
	for err == nil && d.PeekKind() != '}' {
		var name jsontext.Value
		if name, err = d.ReadValue(); err == nil {
			at := slices.Index(left, text(name))
			var value jsontext.Value
			switch value, err = d.ReadValue(); {
			case at >= 0:
				left = slices.Delete(left, at, at+1)
			case !slices.Contains([]string{"null", "false", `""`, "[]", "{}"}, string(value)):
				return false
			}
		}
	}
	return err == nil
}

// readTaskID parses the ID in a task, or in the params of a tasks/ request.
func readTaskID(object []byte) (id string, duplicate bool) {
	_, duplicate, _ = members(object, map[string]func([]byte){"taskId": func(v []byte) { id = text(v) }})
	return id, duplicate
}

// readFault parses a JSON-RPC error object. output is its data, or the whole object if it has other
// members.
func readFault(fault []byte) (code, message string, output []byte) {
	_, duplicate, _ := members(fault, map[string]func([]byte){
		"code":    func(v []byte) { code = string(v) },
		"message": func(v []byte) { message = text(v) },
		"data":    func(v []byte) { output = v },
	})
	if duplicate || !hasOnly(fault, []string{"code", "message", "data"}) {
		output = fault
	}
	return code, message, output
}
