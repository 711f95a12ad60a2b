// Package mcptest holds attestd mcp and attestd mcp-server against clients and servers that others
// have made, end to end on the built binary.
package mcptest

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"attestd/internal/harness"
)

// role makes this test binary another program than the tests: "server", or "tee".
const role = "MCP_TEST_ROLE"

// lab holds the built attestd as long as the tests run.
var lab *harness.Lab

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Getenv(role) {
		case "server":
			os.Exit(serveTools())
		case "http":
			os.Exit(serveHTTPTools(os.Args[1], os.Args[2] == "stateless"))
		case "tee":
			os.Exit(tee(os.Args[1], os.Args[2:]))
		}
	}
	flag.Parse()
	var err error
	if lab, err = harness.NewLab(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	if err := lab.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// asRole is the environment of this program in a role.
func asRole(name string) []string { return append(os.Environ(), role+"="+name) }

// tee runs a command and writes what goes in and out to the files NAME.in and NAME.out, and its
// number to NAME.pid. A command that is this program again is the server.
func tee(name string, command []string) int {
	if err := os.Setenv(role, "server"); err != nil {
		return 1
	}
	// attestd mcp … -- this program: the tee at its other side
	if len(command) > 1 && command[1] == "mcp" {
		if err := os.Setenv(role, "tee"); err != nil {
			return 1
		}
	}
	in, err1 := os.Create(name + ".in")
	out, err2 := os.Create(name + ".out")
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	stdin, err3 := cmd.StdinPipe()
	stdout, err4 := cmd.StdoutPipe()
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			fmt.Fprintln(os.Stderr, "tee:", err)
			return 1
		}
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "tee:", err)
		return 1
	}
	if err := os.WriteFile(name+".pid", []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, "tee:", err)
	}
	var copying sync.WaitGroup
	go func() {
		_, _ = io.Copy(io.MultiWriter(in, stdin), os.Stdin)
		stdin.Close()
	}()
	copying.Go(func() { _, _ = io.Copy(io.MultiWriter(out, os.Stdout), stdout) })
	copying.Wait()
	_ = cmd.Wait() // its state says more
	return cmd.ProcessState.ExitCode()
}
