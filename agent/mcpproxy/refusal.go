package mcpproxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// refusal is the response to a refused call: an error result, which an agent reads. A protocol
// error might end the agent.
func refusal(id []byte, modern bool, why error) []byte {
	quoted, _ := json.Marshal("attestd refused this call: " + why.Error()) // a string has no error
	return failure(id, modern, quoted)
}

// failure is an error result with this text, a JSON string.
func failure(id []byte, modern bool, quoted []byte) []byte {
	kind := ""
	if modern {
		kind = `"resultType":"complete",`
	}
	return answer(id, `"result":{`+kind+`"content":[{"type":"text","text":`+string(quoted)+`}],"isError":true}`)
}

// withheld replaces a response that is not forwarded. The tool has run, so the agent gets a result.
func withheld(c *call, id []byte, why string) []byte {
	text, _ := json.Marshal("attestd withheld the server's response: " + why)
	if c == nil || c.kind != toolCalled {
		return answer(id, `"error":{"code":-32603,"message":`+string(text)+`}`)
	}
	return failure(id, c.modern, text)
}

// withheldLine replaces a server's line that is no message.
func withheldLine(err error) []byte {
	return withEnd(answer(nil, `"error":{"code":-32603,"message":"attestd withheld a line of the server: `+unreadBecause(err)+`"}`))
}

// unreadBecause says why a line is no message.
func unreadBecause(err error) string {
	if errors.Is(err, errBatch) || errors.Is(err, errEmptyBatch) {
		return err.Error()
	}
	return "it is not JSON"
}

// invalid is the response to an ambiguous request.
func invalid(id []byte, flaw string) []byte {
	return answer(id, `"error":{"code":-32600,"message":"Invalid Request: `+flaw+`"}`)
}

// unreadable is the response to a line that cannot be parsed, and so has no ID.
func unreadable(err error) []byte {
	code, why := -32700, "Parse error: the line is not JSON"
	if errors.Is(err, errBatch) || errors.Is(err, errEmptyBatch) {
		code, why = -32600, "Invalid Request: "+err.Error()
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`+"\n", code, why)
}

// unanswered is the response to a request that its server has not answered.
func unanswered(id []byte, why string) []byte {
	text, _ := json.Marshal(why) // a string has no error
	return answer(id, `"error":{"code":-32000,"message":`+string(text)+`}`)
}

// answer is a response with that ID; nil becomes null.
func answer(id []byte, outcome string) []byte {
	if id == nil {
		id = []byte("null")
	}
	return []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,` + outcome + `}`)
}

func array(values [][]byte) []byte { return withEnd(list(values)) }

// list is a JSON array of values.
func list(values [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(values, []byte{','})...), ']')
}

func withEnd(line []byte) []byte { return append(line, '\n') }
