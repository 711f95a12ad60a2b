package mcpproxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// refusal is the answer to a call that does not go to the server: a result that is an error, which an agent reads, where an error of the
// protocol might end it.
func refusal(id []byte, modern bool, why error) []byte {
	quoted, _ := json.Marshal("attestd refused this call: " + why.Error()) // text always can be
	kind := ""
	if modern {
		kind = `"resultType":"complete",`
	}
	return answer(id, `"result":{`+kind+`"content":[{"type":"text","text":`+string(quoted)+`}],"isError":true}`)
}

// invalid is the answer to a request that two readers could understand in two ways.
func invalid(id []byte) []byte {
	return answer(id, `"error":{"code":-32600,"message":"Invalid Request: a member stands twice"}`)
}

// unreadable is the answer to a line in which no message can be found, and so no ID.
func unreadable(err error) []byte {
	code, why := -32700, "Parse error: the line is no JSON"
	if errors.Is(err, errBatch) {
		code, why = -32600, "Invalid Request: "+errBatch.Error()
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`+"\n", code, why)
}

func answer(id []byte, outcome string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,` + outcome + `}`)
}

func array(values [][]byte) []byte {
	return withEnd(append(append([]byte{'['}, bytes.Join(values, []byte{','})...), ']'))
}

func withEnd(line []byte) []byte { return append(line, '\n') }
