// Package action is the form of the record of what an agent did with a tool: how the record is made
// of an event, and what is read of it later. It is pure: a server and a process on the agent's
// machine make the same bytes and the same key from the same event.
//
// What coding agents send to their hooks is parsed by package hookevent, and secrets are found by
// package mask. Records of telemetry and of attestd run have other payloads, which packages
// telemetry and run make.
//
// # Records
//
// A record's actionType is the [Type] of its event. Its payload is one JSON object with these
// members in this order; absent ones are left out:
//
//	{"source":"claude-code","tool":"Bash","server":"…","callId":"…","sessionId":"…","agentType":"…",
//	 "subagentId":"…","traceparent":"…","input":…,"output":…,"error":…,"reason":…,"durationMs":12}
//
// Input, output, error and reason come from the agent. Each goes through the same three steps:
//
//   - It is made well-formed, so that the canonical form (RFC 8785) can carry it: a lone surrogate
//     or a byte that is not UTF-8 becomes U+FFFD, and a number that no double can represent becomes
//     a string of its digits. A value that is not JSON, has a duplicate member or nests deeper than
//     64 is recorded as a string of its text.
//   - Its secrets are masked (package mask).
//   - It is bounded: a value over the limit becomes {"sha256":"…","bytes":N,"head":"…"}, and one
//     that the policy redacts becomes {"sha256":"…","bytes":N}. Hash and size are those of the
//     canonical form after masking, so a hash does not help to guess a masked secret. The head is
//     the beginning of its text.
//
// Names of tools, servers and subagents are recorded as they are. One of more than 256 bytes is cut
// off and ends in its hash.
//
// # Calls
//
// A record is one of a call if its actionType is below, and its payload is a JSON object in which
// source and callId are strings, and sessionId is one or is not there.
//
//	tool.requested                           a request; with a decision that denies or asks (package
//	                                         decision), a request that is refused
//	tool.denied                              a refusal
//	tool.completed, tool.failed, tool.ended  an outcome: the tool ran
//	otel.tool                                an outcome, where telemetry says that the tool has succeeded
//
// Telemetry (package telemetry) says so of a coding agent, whose name begins with claude_code. or
// codex., by attributes.success, which is true or "true"; of others by status.code "ok" too. A span
// around a call says less: a call that was refused has one as well. The source of the first is that
// of their hooks, claude-code or codex, so that both tell of the same call.
//
// Other names that begin with tool are of no call: tool.pending, of a call that has no outcome yet,
// and the types of what is no call. A subagent that was launched in the background has its outcome
// when it stops.
//
// Records are of one call if they have the same agentId, source, sessionId and callId. A callId
// that is empty, that has 256 bytes or more, so that it may have been cut off, or in which a secret
// was masked, names no call. Nor does a record without one: Gemini CLI gives its calls no IDs.
//
// # Refused calls that ran
//
// A call disobeyed a refusal when the records of it so far have a refusal and an outcome, and no
// more requests than were refused. So the order of its records does not matter: what waited in a
// spool comes late. A request beyond those that were refused is another attempt, to which the
// outcome belongs: the ID was used again, another open request had it already, or an approval let
// the second attempt through.
//
// A request whose decision refuses it may have a tool.denied as well, of who obeyed. That says the
// same again: requests that no decision refused are held against the tool.denied beyond the number
// of those that a decision refused.
//
// The checkers in JavaScript and Python find the same; chain/action/cases.json holds all of them.
package action

// Type is the type of an event, and the actionType of its record.
type Type string

// The types. Those of a call that has come to its end are [ToolCompleted], [ToolFailed],
// [ToolDenied] and [ToolEnded].
const (
	ToolRequested Type = "tool.requested"
	// the response has no outcome yet: the call needs input, has become a task, or has launched a
	// subagent in the background
	ToolPending   Type = "tool.pending"
	ToolCompleted Type = "tool.completed"
	ToolFailed    Type = "tool.failed" // with an error
	ToolDenied    Type = "tool.denied" // the tool was not called
	ToolEnded     Type = "tool.ended"  // it is over, with an uncertain outcome
	// The names of what is no call begin like those of calls, because every version of the server
	// takes a record with such a name for one of its session.

	// the agent asks its user, or who decides for them, whether a tool may be called
	PermissionRequested Type = "tool.permission-requested"
	SubagentEnded       Type = "tool.subagent-ended"
	SessionEnded        Type = "session.ended"
	// an event that is too large to be read: its input is the event's hash and size
	HookOversized Type = "hook.oversized"
	// a message between an MCP client and a server that is no call of a tool
	MCPMessage Type = "mcp.message"
	// what telemetry says of a call, in a payload of package telemetry
	Telemetry Type = "otel.tool"
)

// endsCall reports whether a call is over with an event of the type. It has only one such record.
func (t Type) endsCall() bool {
	return t == ToolCompleted || t == ToolFailed || t == ToolDenied || t == ToolEnded
}
