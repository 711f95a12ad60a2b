package mcpproxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
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

// errLineTooLong ends a session, because the proxy does not know the content of such a line.
var errLineTooLong = errors.New("a message is too long")

// lines reads complete lines from a stream.
type lines struct {
	in    *bufio.Reader
	limit int // bytes of a line
}

func newLines(in io.Reader, most int) *lines { return &lines{bufio.NewReaderSize(in, 32<<10), most} }

// next returns a copy of the next line with its end. The last line may have none. After it, next
// returns io.EOF.
func (l *lines) next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.in.ReadSlice('\n')
		if len(line)+len(part) > l.limit {
			return nil, fmt.Errorf("%w: over %d bytes", errLineTooLong, l.limit)
		}
		line = append(line, part...)
		switch {
		case err == nil, err == io.EOF && len(line) > 0:
			return escapeSeparators(line, l.limit)
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}

// separators are characters that some readers treat as the end of a line, such as Node's readline
// and Java's Scanner, and their JSON escapes. In JSON they occur only in strings.
var separators = []struct{ raw, escaped []byte }{
	{[]byte("\u0085"), []byte(`\u0085`)}, {[]byte("\u2028"), []byte(`\u2028`)}, {[]byte("\u2029"), []byte(`\u2029`)},
}

// escapeSeparators escapes the separators in a line, so that all readers see one line.
func escapeSeparators(line []byte, limit int) ([]byte, error) {
	size := len(line)
	for _, s := range separators {
		size += bytes.Count(line, s.raw) * (len(s.escaped) - len(s.raw))
	}
	if size == len(line) {
		return line, nil
	}
	if size > limit {
		return nil, fmt.Errorf("%w: over %d bytes", errLineTooLong, limit)
	}
	for _, s := range separators {
		line = bytes.ReplaceAll(line, s.raw, s.escaped)
	}
	return line, nil
}
