package hookevent

import (
	"strings"

	"attestd/agent/toolcall"
)

// claudeCode parses the events of Claude Code (2.1.330) and of Codex.
func (o object) claudeCode(source Source) (r Report, err error) {
	e := o.call(source)
	if e.Server, err = o.inner("mcp_server", "name"); err != nil {
		return Report{}, err
	}
	switch o.text("hook_event_name") {
	case "PreToolUse":
		e.Kind, e.Input, r.Asks = toolcall.Requested, o["tool_input"], true
	case "PostToolUse":
		e.Kind, e.Output, e.DurationMS = toolcall.Completed, o["tool_response"], o.milliseconds("duration_ms")
	case "PostToolUseFailure":
		e.Kind, e.Error, e.DurationMS = toolcall.Failed, o.text("error"), o.milliseconds("duration_ms")
	case "PostToolBatch":
		return o.batch(e)
	case "SessionEnd":
		// A session can be resumed and end again; the last prompt identifies each end.
		e = toolcall.Event{
			Kind: toolcall.SessionEnded, Source: e.Source, SessionID: e.SessionID,
			TurnID: o.text("prompt_id"), Reason: o.text("reason"),
		}
	default:
		return Report{Unknown: true}, nil
	}
	r.Events = []toolcall.Event{e}
	return r, nil
}

// batch parses the event that follows a model's turn and lists all its calls. Only this event
// reports the calls that the user or the user's rules denied, and those that failed before a hook
// ran because the model made a mistake.
func (o object) batch(common toolcall.Event) (Report, error) {
	r := Report{Late: true}
	calls, err := o.calls()
	if err != nil {
		return Report{}, err
	}
	for _, c := range calls {
		asked := common
		asked.Tool, asked.CallID = c.text("tool_name"), c.text("tool_use_id")
		answer := c.text("tool_response")
		if asked.CallID == "" || isOurs(asked.Tool, answer) { // it may have been recorded already
			continue
		}
		outcome := asked
		asked.Kind, asked.Input = toolcall.Requested, c["tool_input"]
		switch {
		case strings.HasPrefix(answer, "<tool_use_error>"):
			outcome.Kind, outcome.Error = toolcall.Failed, answer
		case isDenial(asked.Tool, answer):
			outcome.Kind, outcome.Reason = toolcall.Denied, answer
		default:
			outcome.Kind, outcome.Output = toolcall.Ended, c["tool_response"]
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

// isOurs reports whether an answer is a refusal of attestd, which whoever refused has recorded, or
// keeps in its spool.
func isOurs(tool, answer string) bool {
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
		e.Kind, e.Input, r.Asks = toolcall.Requested, o["tool_input"], true
	case "AfterTool":
		e.Kind, e.Output = toolcall.Completed, o["tool_response"]
		// A tool's output is never rejected: one with a duplicate error member is recorded whole.
		if failure, err := o.inner("tool_response", "error"); err == nil && failure != "" {
			e.Kind, e.Output, e.Error = toolcall.Failed, nil, failure
		}
	case "SessionEnd":
		e = toolcall.Event{
			Kind: toolcall.SessionEnded, Source: e.Source, SessionID: e.SessionID,
			TurnID: o.text("timestamp"), Reason: o.text("reason"),
		}
	default:
		return Report{Unknown: true}, nil
	}
	r.Events = []toolcall.Event{e}
	return r, nil
}
