package mcpproxy

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// toolCall has the parsed params of a tools/call.
type toolCall struct {
	name      string
	arguments []byte
	toolUseID string // the ID of the model's tool use, if the client sends it
	trace     string // W3C traceparent
	modern    bool   // revision 2026-07-28 or later, which has no initialize
	state     []byte // requestState; nil unless the call continues after input_required
	retry     bool   // it brings the input that the server has requested
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
