package setup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"attestd/agent/hookevent"
)

// Kind is a coding agent that can be put under watch.
type Kind struct {
	Source  hookevent.Source
	Title   string
	Program string // by which a shell starts it
	HTTP    bool   // it can ask the server itself, by HTTP hooks
	Trust   string // what its user must do before it runs hooks, "" for nothing
	// that are reported: the first is asked before a call and can refuse it, the second comes after
	// one
	Events []string

	matcher string // of all tools
	unit    int    // of a timeout, in a second
	folder  string // of its settings: below the home folder, or below that of the project
	project bool
	file    string
}

// Kinds are the agents that are known.
var Kinds = []Kind{
	{
		Source: hookevent.ClaudeCode, Title: "Claude Code", Program: "claude", HTTP: true,
		Events:  []string{"PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "SessionEnd"},
		matcher: "*", unit: 1, folder: ".claude", project: true, file: "settings.json",
	},
	{
		Source: hookevent.Gemini, Title: "Gemini CLI", Program: "gemini",
		Events:  []string{"BeforeTool", "AfterTool", "SessionEnd"},
		matcher: ".*", unit: 1000, folder: ".gemini", file: "settings.json",
	},
	{
		Source: hookevent.Codex, Title: "Codex", Program: "codex",
		Trust:   "Codex runs no hook before you have trusted it, and says nothing where it does not: start codex, type /hooks, and trust those of attestd; again after each change of them",
		Events:  []string{"PreToolUse", "PostToolUse"},
		matcher: ".*", unit: 1, folder: ".codex", file: "hooks.json",
	},
}

// kindOf is the agent of a source, Claude Code for none.
func kindOf(source hookevent.Source) Kind {
	for _, k := range Kinds {
		if k.Source == source {
			return k
		}
	}
	return Kinds[0]
}

// Settings is the file in which the agent looks for hooks, as people write it.
func (k Kind) Settings() string {
	if k.project {
		return filepath.Join(k.folder, k.file)
	}
	return "~/" + k.folder + "/" + k.file
}

// SettingsFile is that file.
func (k Kind) SettingsFile() (string, error) {
	if k.project {
		return k.Settings(), nil
	}
	if own := os.Getenv("CODEX_HOME"); k.Source == hookevent.Codex && own != "" {
		return filepath.Join(own, k.file), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home folder for %s: set HOME, or give --settings", k.Settings())
	}
	return filepath.Join(home, k.folder, k.file), nil
}

// Version is that of a program: "2.1.330".
type Version string

// versionTime bounds how long a program may take to say its version; some start an interpreter
// first.
const versionTime = 20 * time.Second

var versionForm = regexp.MustCompile(`\d{1,9}\.\d{1,9}\.\d{1,9}`)

// Version asks the program that a shell would start for its version: "" where there is none that
// answers. It gets no credential of ours.
func (k Kind) Version(ctx context.Context) Version {
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, k.Program, "--version")
	cmd.WaitDelay = time.Second
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "ATTESTD_KEY=") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return Version(versionForm.Find(out))
}

// AtLeast says whether a version is known and not before another.
func (v Version) AtLeast(other Version) bool {
	var a, b [3]int
	if _, err := fmt.Sscanf(string(v), "%d.%d.%d", &a[0], &a[1], &a[2]); err != nil {
		return false
	}
	_, _ = fmt.Sscanf(string(other), "%d.%d.%d", &b[0], &b[1], &b[2])
	for i := range a {
		if a[i] != b[i] {
			return a[i] > b[i]
		}
	}
	return true
}

// HTTPRefuses is the first version of Claude Code of which it was shown that an HTTP hook without
// an answer refuses the call. 2.1.197 makes the call.
const HTTPRefuses Version = "2.1.330"
