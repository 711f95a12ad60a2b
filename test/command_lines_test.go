package test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

var updateCommandLines = flag.Bool("update-command-lines", false, "write testdata/command_lines.txt")

// keyID is the ID of a new master key, which is another one each time.
var keyID = regexp.MustCompile(`master key [0-9a-f]{16} is`)

// What a newcomer types, right or wrong, has a status and a message that says what to do. Each line
// is typed in a folder that has an empty file, a text and a folder, with a clean home, while no
// server runs.
func TestCommandLinesOfANewcomer(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	if runtime.GOOS == "windows" {
		testenv.Missing(t, "the texts of system errors are those of Linux")
	}
	const path = "testdata/command_lines.txt"
	table, err := os.ReadFile(path)
	must.OK(t, err)
	var got strings.Builder
	lines := 0
	for line := range strings.Lines(string(table)) {
		switch {
		case strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "":
			got.WriteString(line)
		case strings.HasPrefix(line, "$ "):
			lines++
			status, message := typeLine(t, strings.TrimSpace(line[2:]))
			fmt.Fprintf(&got, "%s%d  %s\n", line, status, message)
			if status != 0 && !strings.HasPrefix(message, "attestd: ") && !strings.HasPrefix(line, "$ attestd doctor") {
				t.Errorf("%s ends with %d and says %q", line, status, message)
			}
		}
	}
	if lines < 120 {
		t.Errorf("the table has %d command lines", lines)
	}
	if *updateCommandLines {
		must.OK(t, os.WriteFile(path, []byte(got.String()), 0o644))
		return
	}
	if got.String() != string(table) {
		for i, want := range strings.Split(string(table), "\n") {
			if now := strings.Split(got.String(), "\n"); i < len(now) && now[i] != want {
				t.Errorf("line %d of %s\nis  %s\nnow %s", i+1, path, want, now[i])
			}
		}
		t.Error("if this is as it should be: go test ./test -run CommandLinesOfANewcomer -update-command-lines")
	}
}

// typeLine types a command line, and returns its status and the first line that it prints: of
// standard error, and else of standard output.
func typeLine(t *testing.T, line string) (status int, message string) {
	t.Helper()
	folder := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(folder, "empty"), nil, 0o600))
	must.OK(t, os.WriteFile(filepath.Join(folder, "notes.txt"), []byte("hello\n"), 0o600))
	must.OK(t, os.Mkdir(filepath.Join(folder, "folder"), 0o700))
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir = folder
	cmd.Env = []string{"HOME=" + folder, "PATH=" + os.Getenv("PATH"), "ATTESTD_URL=http://127.0.0.1:9"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		status = exit.ExitCode()
	} else {
		must.OK(t, err)
	}
	message, _, _ = strings.Cut(errs.String(), "\n")
	if message == "" {
		message, _, _ = strings.Cut(out.String(), "\n")
	}
	message = keyID.ReplaceAllString(strings.ReplaceAll(message, folder, "FOLDER"), "master key KEYID is")
	return status, strings.TrimSpace(message)
}
