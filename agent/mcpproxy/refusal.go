package mcpproxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// refusal is the answer to a call that does not go to the server: a result that is an error, which
// an agent reads, where an error of the protocol might end it.
func refusal(id []byte, modern bool, why error) []byte {
	quoted, _ := json.Marshal("attestd refused this call: " + why.Error()) // text always can be
	return failure(id, modern, quoted)
}

// failure is the result of a tool that has failed with this text, a JSON string.
func failure(id []byte, modern bool, quoted []byte) []byte {
	kind := ""
	if modern {
		kind = `"resultType":"complete",`
	}
	return answer(id, `"result":{`+kind+`"content":[{"type":"text","text":`+string(quoted)+`}],"isError":true}`)
}

// withheld stands in place of an answer of the server that does not go on. The tool has run, and
// its agent reads that.
func withheld(c *call, id []byte, why string) []byte {
	text, _ := json.Marshal("attestd withheld what the server answered: " + why)
	if c == nil || c.kind != toolCalled {
		return answer(id, `"error":{"code":-32603,"message":`+string(text)+`}`)
	}
	return failure(id, c.modern, text)
}

// withheldLine stands in place of a line of the server in which no message can be found.
func withheldLine() []byte {
	return withEnd(answer(nil, `"error":{"code":-32603,"message":"attestd withheld a line of the server: it is no JSON"}`))
}

// invalid is the answer to a request that two readers could understand in two ways.
func invalid(id []byte, flaw string) []byte {
	return answer(id, `"error":{"code":-32600,"message":"Invalid Request: `+flaw+`"}`)
}

// unreadable is the answer to a line in which no message can be found, and so no ID.
func unreadable(err error) []byte {
	code, why := -32700, "Parse error: the line is no JSON"
	if errors.Is(err, errBatch) {
		code, why = -32600, "Invalid Request: "+errBatch.Error()
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`+"\n", code, why)
}

// answer is an answer to the request of that ID; nil is that of none.
func answer(id []byte, outcome string) []byte {
	if id == nil {
		id = []byte("null")
	}
	return []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,` + outcome + `}`)
}

func array(values [][]byte) []byte {
	return withEnd(append(append([]byte{'['}, bytes.Join(values, []byte{','})...), ']'))
}

func withEnd(line []byte) []byte { return append(line, '\n') }
