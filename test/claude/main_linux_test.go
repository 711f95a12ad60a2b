// Package claude runs the real Claude Code, Gemini CLI and Codex against mocks of the models that
// they ask, and against the built attestd, with the settings that `attestd init` writes. All of
// them have a network of their own, in which there is nothing else.
package claude

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"attestd/internal/testenv"
)

// inside marks in the environment that the process is in its own network namespace.
const inside = "ATTESTD_TEST_NETWORK"

// scratch is a folder that lasts as long as all tests.
var scratch string

// TestMain runs the tests in a child of its own in a new network namespace, where that can be had.
func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv(inside) == "" && lacks() == "" {
		status, err := rerun()
		if err == nil {
			return status
		}
		fmt.Println("there is no network of our own:", err)
	}
	if os.Getenv(inside) != "" {
		if err := loopbackUp(); err != nil {
			fmt.Println("loopback:", err)
			return 1
		}
	}
	dir, err := os.MkdirTemp("", "attestd-claude-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	scratch = dir
	return m.Run()
}

// rerun runs this test binary once more in a new network namespace. Users other than root need a
// new user namespace, too. The error means that it did not start.
func rerun() (status int, err error) {
	own, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(own, os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN}
	}
	runtime.LockOSThread() // Pdeathsig is about the thread
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	var ended *exec.ExitError
	switch err := cmd.Wait(); {
	case errors.As(err, &ended):
		return max(1, ended.ExitCode()), nil
	case err != nil:
		return 1, nil
	}
	return 0, nil
}

// loopbackUp makes 127.0.0.1 work in a new namespace.
func loopbackUp() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request)
}

// program is Claude Code itself.
var program = sync.OnceValue(func() string {
	name := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	path, _ := filepath.Abs(filepath.Join("node_modules", "@anthropic-ai", "claude-agent-sdk-linux-"+name, "claude"))
	return path
})

// lacks returns what these tests need and do not find, or "".
func lacks() string {
	if _, err := os.Stat(program()); err != nil {
		return "there is no Claude Code: npm ci --prefix test/claude"
	}
	if _, err := exec.LookPath("bash"); err != nil {
		return "there is no bash"
	}
	return ""
}

// need skips a test for want of what CI has.
func need(t *testing.T) {
	t.Helper()
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	why := lacks()
	if why == "" && os.Getenv(inside) == "" {
		why = "there is no network namespace to be had"
	}
	if why != "" {
		testenv.Missing(t, why)
	}
}
