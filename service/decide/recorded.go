package decide

import (
	"strings"
	"time"

	"attestd/chain/action"
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
// payload as arguments. That of a decision at another door is read by [decision]'s form of it.
//
// Of arguments that are recorded as their hash, because they were too long or are redacted, nothing
// is known: all of them are dropped, and no details that name an argument cover them.
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
	if c.Door != DoorAttest && (actionType == decision.AuthorizationDenied || actionType == decision.AuthorizationAllowed) {
		req.authorization(payload)
		req.dropShort()
		return req
	}
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
	req.call(server, tool)
	if req.Arguments = input; input == nil {
		req.Arguments = arguments
	}
	req.dropShort()
	return req
}

// dropShort puts a text in the place of arguments of which the record has no more than the hash. As
// an object they would be arguments that the tool does not get.
func (r *Request) dropShort() {
	if action.IsShort(r.Arguments) {
		r.Arguments = []byte(`""`)
	}
}

// call makes it a request for the call of a tool, which coding agents may have named with its MCP
// server.
func (r *Request) call(server, tool string) {
	if of, is := strings.CutPrefix(tool, "mcp__"); is && server == "" {
		if name, rest, has := strings.Cut(of, "__"); has {
			server, tool = name, rest
		}
	}
	r.Action, r.ActionType, r.Tool, r.Server = Call, "", tool, server
}

// authorization reads the payload of a record of a decision. One that is not understood has an
// action that does not exist, so that it is denied.
func (r *Request) authorization(payload []byte) {
	r.Action, r.ActionType, r.Arguments = "", "", nil
	var asked, method string
	var resource []byte
	err := strictjson.EachMember(payload, maxPayloadDepth, func(name, value []byte) {
		switch string(name) {
		case "action":
			asked, _ = strictjson.AsString(value)
		case "resource":
			resource = value
		case "method":
			method, _ = strictjson.AsString(value)
		case "arguments":
			r.Arguments = value
		}
	})
	var kind, id string
	if err == nil {
		err = strictjson.EachMember(resource, 1, func(name, value []byte) {
			switch string(name) {
			case "type":
				kind, _ = strictjson.AsString(value)
			case "id":
				id, _ = strictjson.AsString(value)
			}
		})
	}
	switch {
	case err != nil || id == "":
	case asked == Call && kind == Resources[Call]:
		server, tool, has := strings.Cut(id, "/")
		if !has || server == "" || tool == "" {
			server, tool = "", id
		}
		r.call(server, tool)
	case asked == Attest && kind == Resources[Attest]:
		r.Action, r.ActionType = Attest, id
	case asked == Token && kind == Resources[Token]:
		r.Action, r.Audience = Token, id
	case asked == HTTP && kind == Resources[HTTP]:
		if u, is := parseURL(method, id); is {
			r.Action, r.URL = HTTP, u
		}
	}
}

// Resources are the types of the resources of actions, as records of decisions name them.
var Resources = map[string]string{Call: "tool", Attest: "action", Token: "audience", HTTP: "url"}

// maxPayloadDepth is more than the payload of a record nests.
const maxPayloadDepth = 256
