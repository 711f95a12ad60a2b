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
	// how long the output of a server that has ended is still read: what it has left behind may
	// hold it open
	outputGrace = 2 * time.Second
	// how long a server that has closed its output may take to end, and then to heed a signal
	endGrace = 5 * time.Second
)

// signalled is added to the number of the signal that has ended a server, as shells do.
const signalled = 128

// Serve starts the server and carries a session with it until it has ended. It sets the server's
// standard input and output and leaves the rest of the command as it is. What comes from signals is
// handed on to the server. The status is the one with which the server has exited.
func (p *Proxy) Serve(ctx context.Context, server *exec.Cmd, in io.Reader, out io.Writer, signals <-chan os.Signal) (status int, err error) {
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
	var handing sync.WaitGroup
	handing.Go(func() { handOn(server.Process, signals, ended) })
	go func() {
		defer close(ended)
		_ = server.Wait() // its state says more than its error
		time.AfterFunc(outputGrace, func() { fromServer.Close() })
	}()
	err = p.Run(ctx, in, out, untilClosed{fromServer}, toServer)
	fromServer.Close() // a server that writes on learns that nobody reads
	for _, stop := range []func() error{func() error { return server.Process.Signal(syscall.SIGTERM) }, server.Process.Kill} {
		select {
		case <-ended:
		case <-time.After(endGrace):
			_ = stop() // it may have ended just now
		}
	}
	<-ended
	handing.Wait()
	return exitStatus(server.ProcessState), err
}

// handOn hands signals on until the server has ended.
func handOn(server *os.Process, signals <-chan os.Signal, ended <-chan struct{}) {
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
		return signalled + int(w.Signal())
	}
	return state.ExitCode()
}

// untilClosed reads a file that ends when it is closed.
type untilClosed struct{ *os.File }

func (f untilClosed) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	if errors.Is(err, os.ErrClosed) {
		err = io.EOF
	}
	return n, err
}
