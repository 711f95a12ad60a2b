package setup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"attestd/chain/action/hookevent"
	"attestd/internal/lazyregexp"
)

// Kind is a coding agent whose tool calls can be recorded.
type Kind struct {
	Source  hookevent.Source
	Title   string
	Program string // command that starts it
	HTTP    bool   // it supports HTTP hooks
	// OnFailure says that its settings can have it refuse a call whose hook fails
	OnFailure bool
	Trust     string // what its user must do before it runs hooks; "" for nothing
	// Events are the reported events. The hook of the first runs before a call and can refuse it;
	// the hook of the second runs after a call.
	Events []string

	matcher string // matches all tools
	unit    int    // units of a timeout in a second
	folder  string // of its settings: below the home folder, or below the project's
	project bool
	file    string
	shared  string // the file of a project that its users share; "" for none

	folderVariable string // of the environment: the folder of the user's settings; "" for none
	onWindows      shell  // in which it runs the commands of hooks there
}

// Kinds lists the supported agents.
var Kinds = []Kind{
	{
		Source: hookevent.ClaudeCode, Title: "Claude Code", Program: "claude", HTTP: true, OnFailure: true,
		Events:  []string{"PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "PermissionRequest", "SubagentStop", "SessionEnd"},
		matcher: "*", unit: 1, folder: ".claude", project: true, file: "settings.local.json", shared: "settings.json",
		folderVariable: "CLAUDE_CONFIG_DIR",
	},
	{
		Source: hookevent.Gemini, Title: "Gemini CLI", Program: "gemini",
		Events:  []string{"BeforeTool", "AfterTool", "SessionEnd"},
		matcher: ".*", unit: 1000, folder: ".gemini", file: "settings.json", onWindows: powerShell,
	},
	{
		Source: hookevent.Codex, Title: "Codex", Program: "codex",
		Trust:   "Codex does not run a hook before you trust it, and shows no warning: start codex, type /hooks, and trust the hooks of attestd; repeat this after each change of the hooks",
		Events:  []string{"PreToolUse", "PostToolUse", "PermissionRequest", "SubagentStop"},
		matcher: ".*", unit: 1, folder: ".codex", file: "hooks.json", folderVariable: "CODEX_HOME", onWindows: anyWindows,
	},
}

// kindOf returns the agent of a source, and Claude Code for an empty one.
func kindOf(source hookevent.Source) Kind {
	for _, k := range Kinds {
		if k.Source == source {
			return k
		}
	}
	return Kinds[0]
}

// Settings returns the path of the agent's settings file as people write it.
func (k Kind) Settings() string {
	if k.project {
		return filepath.Join(k.folder, k.file)
	}
	return "~/" + k.folder + "/" + k.file
}

// SettingsFile returns the path of the agent's settings file.
func (k Kind) SettingsFile() (string, error) {
	if k.project {
		return k.Settings(), nil
	}
	if own := os.Getenv(k.folderVariable); k.folderVariable != "" && own != "" {
		return filepath.Join(own, k.file), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home folder for %s: set HOME, or give --settings", k.Settings())
	}
	return filepath.Join(home, k.folder, k.file), nil
}

// SharedFile returns the path of the settings that the users of a project share, which are no place
// for the path of one user's program; "" for none. Earlier versions of init wrote there.
func (k Kind) SharedFile() string {
	if k.shared == "" {
		return ""
	}
	return filepath.Join(k.folder, k.shared)
}

// IsShared reports whether settings are those that the users of a project share.
func (k Kind) IsShared(settings string) bool {
	if k.shared == "" || filepath.Base(settings) != k.shared || filepath.Base(filepath.Dir(settings)) != k.folder {
		return false
	}
	path, err := filepath.Abs(settings)
	home, err2 := os.UserHomeDir()
	return err != nil || err2 != nil || filepath.Dir(filepath.Dir(path)) != filepath.Clean(home)
}

// HasHooks reports whether a settings file has hooks of attestd.
func HasHooks(file string) bool {
	text, err := readSettings(file)
	if err != nil {
		return false
	}
	_, found, err := Remove(text)
	return err == nil && found
}

// Version is a program's version, such as "2.1.330".
type Version string

// versionTime is the time limit for a program to print its version. Some start an interpreter
// first, which takes half a minute from a cold disk on a busy machine.
const versionTime = 2 * time.Minute

var versionForm = lazyregexp.New(`\d{1,9}\.\d{1,9}\.\d{1,9}`)

// Version runs the program to print its version, and returns "" if that fails. The program's
// environment does not contain the credential.
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
	return Version(versionForm().Find(out))
}

// AtLeast reports whether a version is known and equal to another or later.
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

// HTTPRefuses is the first tested version of Claude Code that refuses a call when an HTTP hook gets
// no response. 2.1.197 continues with the call.
const HTTPRefuses Version = "2.1.330"

// OnFailureBlocks is the first version of Claude Code that refuses a call when a hook that says so
// hangs or fails. Older ones ignore what the hook says.
const OnFailureBlocks Version = "2.1.295"
