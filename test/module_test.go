package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// Another module uses the Go client as docs/agents/clients.md describes: the test enters the
// commands and builds and runs the program from that page.
func TestGoClientInAnotherModule(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain)
	t.Parallel()
	text, err := os.ReadFile("../docs/agents/clients.md")
	must.OK(t, err)
	section := regexp.MustCompile("(?s)\n## Go\n.*?\n## ").Find(text)
	commands := regexp.MustCompile("(?s)```sh\n(.*?)```").FindSubmatch(section)
	program := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindSubmatch(section)
	if commands == nil || program == nil {
		t.Fatal("docs/agents/clients.md shows no commands or no program in Go")
	}
	s := serve(t, storetest.New(t))
	c := s.register(t, "acme")
	folder := t.TempDir()
	module := filepath.Join(folder, "bot")
	must.OK(t, os.Mkdir(module, 0o700))
	root, err := filepath.Abs("..")
	must.OK(t, err)
	must.OK(t, os.Symlink(root, filepath.Join(folder, "attestd")))
	must.OK(t, os.WriteFile(filepath.Join(module, "main.go"), program[1], 0o600))
	script := "go mod init example.com/bot\n" + string(commands[1]) + "go build -o bot . && ./bot\n"
	cmd := exec.CommandContext(t.Context(), testenv.Path(t, "bash"), "-ec", script)
	cmd.Dir = module
	// the modules are those that attestd has, whose sums its own go.sum holds
	cmd.Env = append(os.Environ(), "GOSUMDB=off", "ATTESTD_URL="+s.URL, "ATTESTD_KEY="+c.key)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if last := lines[len(lines)-1]; !regexp.MustCompile(`^0 [0-9a-f]{64}$`).MatchString(last) {
		t.Errorf("the program prints %q", out)
	}
}
