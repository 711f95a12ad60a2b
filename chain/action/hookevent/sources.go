package hookevent

import (
	"cmp"
	"errors"
	"strings"

	"attestd/chain/action"
)

// claudeCode parses the events of Claude Code (2.1.330) and of Codex.
func (o object) claudeCode(source Source) (r Report, err error) {
	e := o.call(source)
	if e.Server, err = o.inner("mcp_server", "name"); err != nil {
		return Report{}, err
	}
	switch o.text("hook_event_name") {
	case "PreToolUse":
		e.Type, e.Input, r.Asks = action.ToolRequested, o["tool_input"], true
	case "PostToolUse":
		e.Output, e.DurationMS = o["tool_response"], o.milliseconds("duration_ms")
		if source == Codex {
			e.Type = codexOutcome(e.Tool, e.Output)
		} else if e.Type, e.SubagentID = claudeOutcome(e.Tool, e.Output); e.Type == action.ToolPending {
			e.TurnID = o.turn()
		}
	case "PermissionRequest":
		e.Type, e.Input = action.PermissionRequested, o["tool_input"]
	case "SubagentStop":
		// A subagent can be resumed and stop again; the prompt tells most of its ends apart.
		e = action.Event{
			Type: action.SubagentEnded, Source: e.Source, SessionID: e.SessionID, AgentType: e.AgentType,
			SubagentID: o.text("agent_id"), TurnID: o.turn(),
		}
		if o.text("last_assistant_message") != "" {
			e.Output = o["last_assistant_message"]
		}
	case "PostToolUseFailure":
		e.Type, e.Error, e.DurationMS = action.ToolFailed, o.text("error"), o.milliseconds("duration_ms")
	case "PostToolBatch":
		return o.batch(e)
	case "SessionEnd":
		// A session can be resumed and end again; the last prompt identifies each end.
		e = action.Event{
			Type: action.SessionEnded, Source: e.Source, SessionID: e.SessionID,
			TurnID: o.text("prompt_id"), Reason: o.text("reason"),
		}
	default:
		return Report{Unknown: true}, nil
	}
	r.Events = []action.Event{e}
	return r, nil
}

// turn returns the ID of the turn of an event.
func (o object) turn() string { return cmp.Or(o.text("prompt_id"), o.text("turn_id")) }

// claudeOutcome returns what the event after a call of Claude Code says of it. A subagent that was
// launched in the background has only begun. A command in the background has too, and Claude Code
// does not report its end.
func claudeOutcome(tool string, response []byte) (outcome action.Type, subagentID string) {
	switch tool {
	case "Agent", "Task": // the name of earlier versions
		result, err := parseObject(response, "status", "isAsync", "agentId")
		status := result.text("status")
		switch {
		case errors.Is(err, errNoObject):
		case err != nil: // a duplicate member
			return action.ToolEnded, ""
		case strings.HasSuffix(status, "_launched"), strings.HasSuffix(status, "_spawned"), result.text("isAsync") == "true":
			return action.ToolPending, result.text("agentId")
		}
	case "Bash", "PowerShell":
		result, err := parseObject(response, "backgroundTaskId")
		if err == nil && result.text("backgroundTaskId") != "" {
			return action.ToolEnded, ""
		}
	}
	return action.ToolCompleted, ""
}

// codexOutcome returns what the event after a call of Codex (0.169.0) says of it. For its own tools
// that is their output alone, whatever the exit status. For those of MCP servers it is the result,
// and Codex reports no other than a success.
func codexOutcome(tool string, response []byte) action.Type {
	result, err := parseObject(response, "content", "isError", "exit_code", "success")
	if err != nil {
		return action.ToolEnded
	}
	isMCP := strings.HasPrefix(tool, "mcp__")
	switch isError, content := result.text("isError"), result["content"]; {
	case isMCP && len(content) > 0 && content[0] == '[' && (isError == "" || isError == "false"):
		return action.ToolCompleted
	case isMCP && isError == "true":
		return action.ToolFailed
	case isMCP:
		return action.ToolEnded
	}
	// No tool of this version reports so, but the words would leave no doubt.
	switch status, success := string(result["exit_code"]), string(result["success"]); {
	case success == "false", status != "" && status != "0" && strings.Trim(status, "-0123456789") == "":
		return action.ToolFailed
	case success == "true" && status == "", status == "0":
		return action.ToolCompleted
	}
	return action.ToolEnded
}

// launchedText begins what Claude Code tells the model of a subagent in the background.
const launchedText = "Async agent launched successfully"

// launchedInBackground reports whether an answer to the model says that a subagent was launched,
// and which.
func launchedInBackground(tool, answer string) (subagentID string, is bool) {
	if tool != "Agent" && tool != "Task" {
		return "", false
	}
	answer = strings.TrimPrefix(answer, `[{"type":"text","text":"`)
	if !strings.HasPrefix(answer, launchedText) {
		return "", false
	}
	const near = 1000
	_, after, _ := strings.Cut(answer[:min(near, len(answer))], "agentId: ")
	return after[:len(after)-len(strings.TrimLeft(after, idCharacters))], true
}

const idCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

// batch parses the event that follows a model's turn and lists all its calls. Only this event
// reports the calls that the user or the user's rules denied, and those that failed before a hook
// ran because the model made a mistake.
func (o object) batch(common action.Event) (Report, error) {
	r := Report{Late: true}
	calls, err := o.calls()
	if err != nil {
		return Report{}, err
	}
	for _, c := range calls {
		asked := common
		asked.Tool, asked.CallID = c.text("tool_name"), c.text("tool_use_id")
		answer := c.text("tool_response")
		if asked.CallID == "" || isOwnRefusal(asked.Tool, answer) { // it may be recorded already
			continue
		}
		outcome := asked
		asked.Type, asked.Input = action.ToolRequested, c["tool_input"]
		launched, inBackground := launchedInBackground(asked.Tool, answer)
		switch {
		case inBackground:
			outcome.Type, outcome.SubagentID, outcome.Output = action.ToolPending, launched, c["tool_response"]
		case strings.HasPrefix(answer, "<tool_use_error>"):
			outcome.Type, outcome.Error = action.ToolFailed, answer
		case isDenial(asked.Tool, answer):
			outcome.Type, outcome.Reason = action.ToolDenied, answer
		default:
			outcome.Type, outcome.Output = action.ToolEnded, c["tool_response"]
		}
		r.Events = append(r.Events, asked, outcome)
	}
	return r, nil
}

// isDenial reports whether a text is Claude Code's answer to the model for a denied call. It
// compares from the first word on, because a tool's own output may mention a denial.
func isDenial(tool, answer string) bool {
	const near = 500
	answer = answer[:min(near, len(answer))]
	for _, form := range []struct{ begins, holds string }{
		{"Permission to use " + tool + " ", "has been denied"},
		{"Claude requested permissions to ", "haven't granted"},
		{"The user doesn't want to ", ""},
		{"This command ", "requires approval"},
		{"This " + tool + " command ", "require approval"},
		{"This " + tool + " command ", "requires approval"},
		{"This " + tool + " command ", "needs approval"},
		{hookError(tool), ""}, // of another hook
	} {
		if strings.HasPrefix(answer, form.begins) && strings.Contains(answer, form.holds) {
			return true
		}
	}
	return false
}

// isOwnRefusal reports whether an answer is a refusal of attestd, which the refusing process has
// recorded, or keeps in its spool.
func isOwnRefusal(tool, answer string) bool {
	answer = strings.TrimPrefix(answer, hookError(tool))
	return strings.HasPrefix(answer, "attestd: ") && strings.Contains(answer, "is refused")
}

// hookError is what Claude Code writes before the reason of a hook that refused.
func hookError(tool string) string { return "PreToolUse:" + tool + " hook error: " }

// gemini parses the events of Gemini CLI. Its calls have no IDs.
func (o object) gemini() (r Report, err error) {
	e := o.call(Gemini)
	if e.Server, err = o.inner("mcp_context", "server_name"); err != nil {
		return Report{}, err
	}
	switch o.text("hook_event_name") {
	case "BeforeTool":
		e.Type, e.Input, r.Asks = action.ToolRequested, o["tool_input"], true
	case "AfterTool":
		e.Type, e.Output = action.ToolCompleted, o["tool_response"]
		// A tool's output is never rejected: one with a duplicate error member is recorded in full.
		if failure, err := o.inner("tool_response", "error"); err == nil && failure != "" {
			e.Type, e.Output, e.Error = action.ToolFailed, nil, failure
		}
	case "SessionEnd":
		e = action.Event{
			Type: action.SessionEnded, Source: e.Source, SessionID: e.SessionID,
			TurnID: o.text("timestamp"), Reason: o.text("reason"),
		}
	default:
		return Report{Unknown: true}, nil
	}
	r.Events = []action.Event{e}
	return r, nil
}
