package setup

import (
	"encoding/json"
	"strings"
	"testing"

	"attestd/chain/action/hookevent"
)

// A hook's command has the form of the shell in which its agent runs it, also on Windows. Where a
// refusal is asked for, it ends with 2 when its program is missing.
func TestCommandOfEachShell(t *testing.T) {
	t.Parallel()
	const plain, spaced = `C:\attestd\attestd-agent.exe`, `C:\Program Files\it's attestd\attestd-agent.exe`
	for _, c := range []struct {
		source          hookevent.Source
		system, program string
		closed          bool
		want            string // of an encoded script, what it decodes to
	}{
		{hookevent.ClaudeCode, "linux", "/opt/attestd", false, `/opt/attestd hook --agent a --url http://h`},
		{hookevent.ClaudeCode, "linux", "/opt/a b", true, `'/opt/a b' hook --agent a --url http://h --fail closed || exit 2`},
		// the bash of Git
		{hookevent.ClaudeCode, "windows", plain, true, `'C:\attestd\attestd-agent.exe' hook --agent a --url http://h --fail closed || exit 2`},

		{hookevent.Gemini, "windows", plain, false, `& 'C:\attestd\attestd-agent.exe' hook --from gemini --agent a --url http://h`},
		{hookevent.Gemini, "windows", spaced, true, `$global:LASTEXITCODE = 2; & 'C:\Program Files\it''s attestd\attestd-agent.exe' hook --from gemini --agent a --url http://h --fail closed; if ($global:LASTEXITCODE -ne 0) { exit 2 }`},

		{hookevent.Codex, "windows", plain, false, `C:\attestd\attestd-agent.exe hook --from codex --agent a --url http://h`},
		{hookevent.Codex, "windows", spaced, false, `& 'C:\Program Files\it''s attestd\attestd-agent.exe' hook --from codex --agent a --url http://h; exit $LASTEXITCODE`},
		{hookevent.Codex, "windows", plain, true, `$global:LASTEXITCODE = 2; & 'C:\attestd\attestd-agent.exe' hook --from codex --agent a --url http://h --fail closed; if ($global:LASTEXITCODE -ne 0) { exit 2 }`},
		{hookevent.Codex, "darwin", "/opt/attestd", true, `/opt/attestd hook --from codex --agent a --url http://h --fail closed || exit 2`},
	} {
		h := Hooks{Source: c.source, URL: "http://h", Agent: "a", FailClosed: c.closed, Command: c.program, System: c.system}
		var group struct{ Hooks []hook }
		if err := json.Unmarshal(h.group(kindOf(c.source).Events[0]), &group); err != nil {
			t.Fatal(err)
		}
		got := group.Hooks[0]
		if shownCommand(got.Command) != c.want {
			t.Errorf("%s on %s: %s, want %s", c.source, c.system, shownCommand(got.Command), c.want)
		}
		if onCodex := c.source == hookevent.Codex && c.system == "windows"; onCodex != (got.CommandWindows != "") || onCodex && got.CommandWindows != got.Command {
			t.Errorf("%s on %s has the command for Windows %q", c.source, c.system, got.CommandWindows)
		}
		if strings.HasPrefix(got.Command, encodedScript) && strings.ContainsAny(got.Command[len(encodedScript):], "\"'$%^&|<> ") {
			t.Errorf("a shell would change %s", got.Command)
		}
		text, err := json.Marshal(got)
		if run, ok := parseCommand(got.Command, kindOf(c.source).shellOf(c.system)); !ok || !isOwnHook(text) || err != nil || run.words[0] != c.program || run.refuses != c.closed {
			t.Errorf("%s is read as %q, %v", shownCommand(got.Command), run.words, ok)
		}
	}
}

// What is no command of init is not read as one, whatever its content.
func FuzzParseCommand(f *testing.F) {
	f.Add("attestd hook; curl evil", int(posix))
	f.Add("& 'a' hook; & 'evil'", int(powerShell))
	f.Add(encodedScript+encodeScript("& 'a' hook; evil"+endOfScript), int(anyWindows))
	f.Fuzz(func(t *testing.T, text string, in int) {
		if in < 0 || in > int(anyWindows) {
			return
		}
		c, ok := parseCommand(text, shell(in))
		if ok && c.in(shell(in)) != text {
			t.Errorf("%q is read as %q, which is %q", text, c.words, c.in(shell(in)))
		}
	})
}
