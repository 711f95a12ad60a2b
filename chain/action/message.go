package action

import (
	"strconv"
	"strings"
)

// Message is what passed between an MCP client and a server beside the calls of tools.
type Message struct {
	Server, SessionID string
	From              string // client or server: who sent it, or asked for what was answered
	Method            string
	Name              string // what was read: the URI of a resource, or the name of a prompt
	RequestID         string
	Count             int    // how many messages the record stands for, if more than one
	Content           []byte // made by Policy.Hash
	Error             string
}

// Hash returns the recorded form of content that is not recorded itself: {"sha256":"…","bytes":N},
// of its canonical form after masking.
func (p Policy) Hash(content []byte) []byte { return p.value(content, true) }

// Message makes the record of a message. It has no key, because messages of a session may be equal.
//
//	{"source":"mcp","server":"…","sessionId":"…","from":"server","method":"sampling/createMessage",
//	 "name":"…","requestId":"…","messages":12,"content":{"sha256":"…","bytes":N},"error":…}
//
// Of several messages, sha256 is that of their hashes in hexadecimal, each with a line feed.
func (p Policy) Message(m Message) Record {
	payload := []byte(`{"source":"mcp"`)
	member := func(name string, value []byte) { payload = appendMember(payload, name, value) }
	member("server", optional(RecordedName(m.Server)))
	member("sessionId", optional(RecordedID(m.SessionID)))
	member("from", optional(m.From))
	member("method", optional(RecordedName(m.Method)))
	name := RecordedID(m.Name)
	if !strings.EqualFold(m.Method, "prompts/get") { // it is a URI
		name = RecordedName(p.Mask.URI(m.Name))
	}
	member("name", optional(name))
	member("requestId", optional(RecordedID(m.RequestID)))
	if m.Count > 1 {
		member("messages", strconv.AppendInt(nil, int64(m.Count), 10))
	}
	member("content", m.Content)
	member("error", p.text(m.Error, p.HashOutput))
	return Record{ActionType: string(MCPMessage), Payload: append(payload, '}')}
}
