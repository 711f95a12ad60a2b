package decide

import (
	"strings"
	"time"

	"attestd/chain/decision"
	"attestd/crypto/cred/details"
	"attestd/crypto/strictjson"
)

// Recorded returns the request that a record of actions is about, or will be, with what its
// decision says of the context. payload is the caller's value in the record. The same record gives
// the same request, so that a decision can be made again.
//
// A payload with a tool makes it a call of that tool, whose arguments are the member input, or else
// arguments; that of MCP has the member server too. Any other record is of its actionType, with the
// payload as arguments.
func Recorded(company, agentID, actionType string, payload []byte, c decision.Context) *Request {
	req := &Request{
		Company: company, AgentID: agentID, Groups: c.Groups, Action: Attest, ActionType: actionType, Arguments: payload, Folder: c.Folder,
		Context: Context{Door: c.Door, Delegation: c.Delegation, Person: c.Person, Scopes: c.Scopes, Signed: c.Signed},
	}
	for _, text := range c.Details {
		d, err := details.Parse(text)
		req.Details, req.unread = append(req.Details, d), req.unread || err != nil
	}
	req.Context.Time, _ = time.Parse(time.RFC3339Nano, c.Time)
	var input, arguments []byte
	tool, server := "", ""
	err := strictjson.EachMember(payload, maxPayloadDepth, func(name, value []byte) {
		text, _ := strictjson.AsString(value)
		switch string(name) {
		case "tool":
			tool = text
		case "server":
			server = text
		case "source":
			req.Context.Source = text
		case "sessionId":
			req.Context.Session = text
		case "input":
			input = value
		case "arguments":
			arguments = value
		}
	})
	if err != nil || tool == "" {
		return req
	}
	// as coding agents name tools of MCP
	if of, is := strings.CutPrefix(tool, "mcp__"); is && server == "" {
		if name, rest, has := strings.Cut(of, "__"); has {
			server, tool = name, rest
		}
	}
	req.Action, req.ActionType, req.Tool, req.Server = Call, "", tool, server
	if req.Arguments = input; input == nil {
		req.Arguments = arguments
	}
	return req
}

// maxPayloadDepth is more than the payload of a record nests.
const maxPayloadDepth = 256
