package mcpproxy

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	// how long the output is read after the server has ended: a child process may hold it open
	outputGrace = 2 * time.Second
	// how long a server may take to end after it has closed its output, and again after SIGTERM
	endGrace = 5 * time.Second
)

// signalBase plus the signal number is the status of a server that a signal has ended, as in
// shells.
const signalBase = 128

// Serve starts the server and runs a session until it has ended. It sets the command's standard
// input and output only. It forwards signals to the server. status is the server's exit status.
func (p *Proxy) Serve(
	ctx context.Context, server *exec.Cmd, in io.Reader, out io.Writer, signals <-chan os.Signal,
) (status int, err error) {
	toServer, err := server.StdinPipe()
	if err != nil {
		return 0, err
	}
	fromServer, output, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer fromServer.Close()
	server.Stdout = output
	err = server.Start()
	output.Close()
	if err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	var forwarding sync.WaitGroup
	forwarding.Go(func() { forward(server.Process, signals, ended) })
	go func() {
		defer close(ended)
		_ = server.Wait() // ProcessState has the result
		time.AfterFunc(outputGrace, func() { fromServer.Close() })
	}()
	err = p.Run(ctx, in, out, untilClosed{fromServer}, toServer)
	fromServer.Close() // further writes of the server fail
	for _, stop := range []func() error{func() error { return server.Process.Signal(syscall.SIGTERM) }, server.Process.Kill} {
		select {
		case <-ended:
		case <-time.After(endGrace):
			_ = stop() // it may have ended just now
		}
	}
	<-ended
	forwarding.Wait()
	return exitStatus(server.ProcessState), err
}

// forward forwards signals until the server has ended.
func forward(server *os.Process, signals <-chan os.Signal, ended <-chan struct{}) {
	for {
		select {
		case s := <-signals:
			_ = server.Signal(s) // it may have ended just now
		case <-ended:
			return
		}
	}
}

func exitStatus(state *os.ProcessState) int {
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return signalBase + int(w.Signal())
	}
	return state.ExitCode()
}

// untilClosed is a file that returns io.EOF after Close.
type untilClosed struct{ *os.File }

func (f untilClosed) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	if errors.Is(err, os.ErrClosed) {
		err = io.EOF
	}
	return n, err
}
