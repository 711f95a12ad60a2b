package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"attestd/internal/harness"
)

// commands are texts in which a shell finds the command pwn, some of them even in single quotes.
var commands = []string{
	"$(pwn)", "`pwn`", ";pwn", ";pwn;", "&pwn", "&pwn&", "|pwn", "'$(pwn)'", "';pwn;'", "'\\'';pwn;'\\''", `";pwn;"`,
	`\';pwn;#`, "\npwn\n", "'\npwn\n'", "\r\npwn\r\n", " $(pwn)", "#\npwn", "\x1b]0;title\x07\npwn",
}

// hostileInit responds to `attestd init` with commands in place of keys and of everything that it
// prints, at addresses that contain commands. None of them may run in a shell that reads the
// output.
func hostileInit(ctx context.Context, r *harness.Run) error {
	kinds := []string{"claude-code", "gemini", "codex"}
	left, n := 0, 0
	for i, payload := range commands {
		r.Step(i, len(commands), "commands")
		for _, name := range []string{"key of a company", "key of an agent", "all that is shown", "address"} {
			if name == "address" && strings.ContainsAny(payload, " \r\n\x1b") {
				continue // not a URL
			}
			kept, err := initAgainst(ctx, r, name, payload, kinds[n%len(kinds)])
			if err != nil {
				return err
			}
			n++
			left += kept
		}
	}
	if left == 0 {
		r.Failf("nothing was ever written, so nothing was shown")
	}
	r.Count(n, "hostile servers")
	r.Count(left, "files that they had written")
	return nil
}

// initAgainst runs attestd init with one server, and a shell with all its output. It returns the
// number of files that init has left.
func initAgainst(ctx context.Context, r *harness.Run, name, payload, kind string) (kept int, err error) {
	server := httptest.NewServer(liar(name, payload))
	defer server.Close()
	address := server.URL
	if name == "address" {
		address += "/" + payload
	}
	folder, err := r.Lab.Folder()
	if err != nil {
		return 0, err
	}
	home, bin, ran := filepath.Join(folder, "a $(pwn) 'home'"), filepath.Join(folder, "bin"), filepath.Join(folder, "ran")
	if err := errors.Join(os.Mkdir(home, 0o700), os.Mkdir(bin, 0o700),
		os.WriteFile(filepath.Join(bin, "pwn"), []byte("#!/bin/sh\n: > "+ran+"\n"), 0o700)); err != nil {
		return 0, err
	}
	run := func(script string, args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, harness.Patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", script, "sh"}, args...)...)
		cmd.Dir, cmd.Stdin = home, strings.NewReader(`{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash","tool_use_id":"1"}`)
		cmd.Env = []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "XDG_STATE_HOME=" + home, "PATH=" + bin +
			string(os.PathListSeparator) + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	failf := func(format string, args ...any) {
		r.Failf("%s %q, init %s: %s", name, payload, kind, fmt.Sprintf(format, args...))
	}
	out, refused := run(`exec "$@"`, r.Lab.Binary(), "init", kind, "--unsigned", "--url", address, "--write")
	if exit := (*exec.ExitError)(nil); refused != nil && !errors.As(refused, &exit) {
		return 0, refused
	}
	if strings.ContainsFunc(out, func(c rune) bool { return c != '\n' && unicode.IsControl(c) }) {
		failf("printed raw: %q", out)
	}
	if strings.HasPrefix(name, "key") && refused == nil {
		failf("taken for a key")
	}
	// What a user does with the output: run the line that starts the agent, source the file, and
	// run what the agent runs.
	scripts := []string{}
	for _, line := range startLine.FindAllStringSubmatch(out, -1) {
		scripts = append(scripts, "claude() { :; }; gemini() { :; }; codex() { :; }\n"+line[1])
	}
	err = filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		kept++
		if filepath.Ext(path) != ".json" {
			scripts = append(scripts, "set -a; . "+singleQuoted(path))
			return nil
		}
		var settings any
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &settings)
		}
		scripts = append(scripts, membersNamed(settings, "command")...)
		return err
	})
	for _, script := range scripts {
		_, _ = run(script) // its exit status is irrelevant
	}
	if _, err := os.Stat(ran); err == nil {
		failf("a shell ran it")
	}
	return kept, errors.Join(err, os.RemoveAll(folder))
}

// startLine matches the line that init prints for the user's shell.
var startLine = regexp.MustCompile(`(?m)^start +(.*)$`)

func singleQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// membersNamed returns the texts of all members with a name.
func membersNamed(v any, name string) (list []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			list = append(list, membersNamed(e, name)...)
		}
	case map[string]any:
		for key, e := range v {
			if text, ok := e.(string); ok && key == name {
				list = append(list, text)
			}
			list = append(list, membersNamed(e, name)...)
		}
	}
	return list
}

// liar returns a server for attestd init that responds with a payload in one place.
func liar(name, payload string) http.Handler {
	at := func(place, otherwise string) string {
		if name == place {
			return payload
		}
		return otherwise
	}
	const shown = "all that is shown"
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		last := request.URL.Path[strings.LastIndex(request.URL.Path, "/v1/")+1:]
		status, answer := http.StatusCreated, object(nil)
		switch {
		case last == "v1/companies":
			answer = object{"companyId": at(shown, "local"), "apiKey": at("key of a company", "svc_admin"),
				"publicKey": at(shown, "p")}
		case last == "v1/company":
			status, answer = http.StatusOK, object{"companyId": at(shown, "local")}
		case last == "v1/keys":
			answer = object{"key": at("key of an agent", "svc_writer"), "label": at(shown, "hooks"), "role": "writer"}
		case strings.HasPrefix(last, "v1/agents/"):
			status, answer = http.StatusOK, object{"agentId": at(shown, "bot"), "spiffeId": at(shown, "s"),
				"registeredAt": at(shown, "2026-11-22T00:00:00.000Z")}
		case last == "v1/attest":
			answer = object{"index": 0, "timestamp": at(shown, "2026-11-22T00:00:00.000Z"),
				"hash": at(shown, strings.Repeat("0", 64)), "signature": at(shown, strings.Repeat("0", 86)),
				"payload": object{"agentId": at(shown, "bot"), "companyId": at(shown, "local"), "actionType": "agent.watched",
					"payload": 1}}
		default:
			status, answer = http.StatusNotFound, object{"error": at(shown, "none")}
		}
		w.WriteHeader(status)
		_, _ = w.Write(marshal(answer)) // init reports what it could not read
	})
}
