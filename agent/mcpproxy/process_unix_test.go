//go:build unix

package mcpproxy

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// serverRole is the variable that makes this test binary a server with that behaviour.
const serverRole = "MCPPROXY_TEST_SERVER"

func TestMain(m *testing.M) {
	switch os.Getenv(serverRole) {
	case "":
		os.Exit(m.Run())
	case "echo": // until its input ends
		_, _ = io.Copy(os.Stdout, os.Stdin)
		os.Exit(7)
	case "signal": // says that it waits, and exits with the number of the signal that comes
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		_, _ = os.Stdout.WriteString("{}\n")
		os.Exit(int((<-signals).(syscall.Signal)))
	case "killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "leaves": // another process behind that holds its output
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), serverRole+"=left")
		child.Stdout = os.Stdout
		_ = child.Start()
		os.Exit(5)
	case "left": // until there is no reader left
		for {
			if _, err := os.Stdout.WriteString("\n"); err != nil {
				os.Exit(0)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// serveTest runs a server of TestMain. in is the client's output.
func serveTest(t *testing.T, does string, in io.Reader, out io.Writer, signals <-chan os.Signal) (int, error) {
	t.Helper()
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), serverRole+"="+does)
	server.Stderr = os.Stderr
	return New(Config{Agent: "bot", Server: "x", Recorder: new(recorder)}).Serve(t.Context(), server, in, out, signals)
}

// The server's input ends when the client's output ends, and its exit status is returned.
func TestExitStatus(t *testing.T) {
	in, client := io.Pipe()
	atClient, out := io.Pipe()
	go func() {
		_, _ = io.WriteString(client, `{"id":1,"method":"ping"}`+"\n")
		if line, err := bufio.NewReader(atClient).ReadString('\n'); err != nil || line != `{"id":1,"method":"ping"}`+"\n" {
			t.Errorf("%q, %v", line, err)
		}
		client.Close()
	}()
	if status, err := serveTest(t, "echo", in, out, nil); status != 7 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
	if status, err := serveTest(t, "killed", eternal(t), io.Discard, nil); status != 128+9 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
	if _, err := New(Config{Agent: "bot", Recorder: new(recorder)}).Serve(t.Context(), exec.Command("no-such-server"), eternal(t), io.Discard, nil); !errors.Is(err, exec.ErrNotFound) {
		t.Error(err)
	}
}

// eternal is an input that blocks forever.
func eternal(t *testing.T) io.Reader {
	in, client := io.Pipe()
	t.Cleanup(func() { client.Close() })
	return in
}

// Signals are forwarded to the server, which may handle them.
func TestSignalsAreForwardedToServer(t *testing.T) {
	signals := make(chan os.Signal, 1)
	atClient, out := io.Pipe()
	go func() {
		_, _ = bufio.NewReader(atClient).ReadString('\n')
		signals <- syscall.SIGTERM
	}()
	if status, err := serveTest(t, "signal", eternal(t), out, signals); status != int(syscall.SIGTERM) || err != nil {
		t.Errorf("%d, %v", status, err)
	}
}

// A session ends with its server even if a child process of the server holds its output open.
func TestSessionEndsWhileOutputIsOpen(t *testing.T) {
	if status, err := serveTest(t, "leaves", eternal(t), io.Discard, nil); status != 5 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
}
