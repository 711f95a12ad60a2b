package mcpproxy

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// toolCall is what the proxy reads of the params of a tools/call.
type toolCall struct {
	name      string
	arguments []byte
	toolUseID string // of the model's call that it serves, where the client says so
	trace     string // W3C traceparent
	modern    bool   // of a revision from 2026-07-28 on, which has no initialize
	state     []byte // requestState: nil where it is no answer to input_required
	again     bool   // brings what the server has asked for
	flaw      string // why two readers could see two calls in it; "" for one that is plain
}

// protocolVersion is the member of _meta in which requests of the revisions from 2026-07-28 on name
// their revision.
const protocolVersion = "io.modelcontextprotocol/protocolVersion"

func readToolCall(params []byte) (c toolCall) {
	var meta []byte
	wellFormed := false
	// The line was read whole before, so what is in it is JSON.
	_, twice, _ := members(params, map[string]func([]byte){
		"name":           func(v []byte) { c.name, wellFormed = text(v), isText(v) },
		"arguments":      func(v []byte) { c.arguments = v },
		"_meta":          func(v []byte) { meta = v },
		"requestState":   func(v []byte) { c.state, c.again = v, true },
		"inputResponses": func([]byte) { c.again = true },
	})
	switch {
	case twice:
		c.flaw = flawTwice
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

// isText reports whether a value is a JSON string that all readers read alike.
func isText(value []byte) bool {
	if value[0] != '"' {
		return false
	}
	_, err := jsontext.AppendUnquote(nil, value)
	return err == nil
}

// readCancelled reads which request a notifications/cancelled is about, and why it is given up.
func readCancelled(params []byte) (id []byte, reason string, twice bool) {
	_, twice, _ = members(params, map[string]func([]byte){
		"requestId": func(v []byte) { id = identifier(v) },
		"reason":    func(v []byte) { reason = text(v) },
	})
	return id, reason, twice
}

// toolResult is what the proxy reads of the result of a tools/call.
type toolResult struct {
	failed     bool // isError: the tool has failed, and the agent reads how
	needsInput bool // input_required: not an outcome yet
	state      []byte
	task       string // that the call has become: not an outcome either
}

// Members of results that are no outcome. A result that has another one beside them, which holds
// anything, is recorded as the outcome, for a client may show that to its model.
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
	_, twice, _ := members(result, map[string]func([]byte){
		"isError":      func(v []byte) { r.failed = string(v) == "true" },
		"resultType":   func(v []byte) { kind = text(v) },
		"requestState": func(v []byte) { r.state = v },
		"task":         func(v []byte) { task, _ = readTaskID(v) },
	})
	switch {
	case twice:
	case kind == "input_required":
		r.needsInput = hasOnly(result, inputMembers)
	case task != "" && hasOnly(result, taskMembers):
		r.task = task
	}
	return r
}

// isStatus reports whether a result of tasks/get and its like says how a task stands, and holds no
// result of it.
func isStatus(result []byte) bool { return hasOnly(result, statusMembers) }

// hasOnly reports whether a value is an object all of whose members have these names, each at most
// once, or hold nothing: some servers write "content":[] into each result.
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

// readTaskID reads the ID of a task, or of the task that the params of a request are about.
func readTaskID(object []byte) (id string, twice bool) {
	_, twice, _ = members(object, map[string]func([]byte){"taskId": func(v []byte) { id = text(v) }})
	return id, twice
}

// readFault reads an error object of JSON-RPC. Output is what stands in it beside the code and the
// message.
func readFault(fault []byte) (code, message string, output []byte) {
	_, twice, _ := members(fault, map[string]func([]byte){
		"code":    func(v []byte) { code = string(v) },
		"message": func(v []byte) { message = text(v) },
		"data":    func(v []byte) { output = v },
	})
	if twice || !hasOnly(fault, []string{"code", "message", "data"}) {
		output = fault
	}
	return code, message, output
}
