package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// toolMode is the hidden first argument that makes this program an MCP server on standard input and
// output that responds at once.
const toolMode = "tool"

// runTool responds until its input ends.
func runTool() int {
	in, out := bufio.NewReaderSize(os.Stdin, 64<<10), bufio.NewWriter(os.Stdout)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0
		}
		id, _, _ := strings.Cut(line[strings.Index(line, `"id":`)+5:], ",")
		fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}]}}`+"\n", id)
		if in.Buffered() == 0 && out.Flush() != nil {
			return 1
		}
	}
}

// toolSession is a session with the MCP server, with or without a proxy.
type toolSession struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	last int // ID of the previous call
}

// startTool starts a command and opens a session with it.
func startTool(cmd *exec.Cmd) (s *toolSession, err error) {
	s = &toolSession{cmd: cmd}
	if s.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReaderSize(out, 64<<10)
	return s, cmd.Start()
}

// end ends the session and waits for its process.
func (s *toolSession) end() error {
	s.in.Close()
	return s.cmd.Wait()
}

// call makes n concurrent calls and returns when all have responses.
func (s *toolSession) call(n int) error {
	var lines strings.Builder
	for range n {
		s.last++
		fmt.Fprintf(&lines, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"transfer","arguments":%s}}`+
			"\n", s.last, callerPayload)
	}
	if _, err := io.WriteString(s.in, lines.String()); err != nil {
		return err
	}
	for range n {
		answer, err := s.out.ReadString('\n')
		if err != nil {
			return err
		}
		if !strings.Contains(answer, `"done"`) {
			return fmt.Errorf("the call was answered with %.200s", answer)
		}
	}
	return nil
}

// mcp measures what attestd mcp adds to a call: single calls, alternating with calls to the same
// server without the proxy, and its memory after them and after 200 concurrent calls.
func (b *bench) mcp(ctx context.Context) (err error) {
	server, t, err := b.serveTenant(ctx, "mcp.db")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	direct, err := startTool(exec.Command(self, toolMode))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, direct.end()) }()
	for _, fail := range []string{"open", "closed"} {
		proxy := exec.Command(b.small(), "mcp", "--fail", fail, "--state", filepath.Join(b.dir, "mcp-"+fail), "--", self,
			toolMode)
		proxy.Env = append(os.Environ(), "ATTESTD_URL=http://"+server.addr, "ATTESTD_KEY="+t.key)
		proxy.Stderr = b.stderr
		through, err := startTool(proxy)
		if err != nil {
			return err
		}
		err = b.compareTools(ctx, "mcp", "fail "+fail, through.cmd.Process.Pid, direct, through)
		if err := errors.Join(err, through.end()); err != nil {
			return err
		}
	}
	return nil
}

// toolCaller makes n concurrent calls of a tool.
type toolCaller interface{ call(n int) error }

// compareTools compares a server directly and through a proxy, which is a process.
func (b *bench) compareTools(ctx context.Context, group, column string, pid int, direct, through toolCaller) error {
	sessions := [2]toolCaller{direct, through}
	var times [2][]float64
	for range pick(b.quick, 200, 2000) {
		for i, s := range sessions {
			began := time.Now()
			if err := s.call(1); err != nil {
				return err
			}
			times[i] = append(times[i], millis(time.Since(began)))
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	resident, ok := residentBytes(pid)
	own, _ := ownBytes(pid)
	growth := watchMemory(pid)
	began := time.Now()
	if err := through.call(200); err != nil {
		return err
	}
	took := millis(time.Since(began))
	grown, watched := growth()
	b.report.add(group, column, "lone call, direct, median", median(times[0]), milli, nil)
	b.report.add(group, column, "through the proxy, median", median(times[1]), milli, nil)
	b.report.add(group, column, "the proxy adds", median(times[1])-median(times[0]), milli, atMost(2))
	b.report.add(group, column, "200 calls at once, all answered after", took, milli, nil)
	if ok && watched {
		b.report.add(group, column, "memory of its own, without the file's pages", float64(own)/(1<<20), mebibytes, nil)
		b.report.add(group, column, "memory after lone calls", float64(resident)/(1<<20), mebibytes, atMost(12))
		b.report.add(group, column, "most while there are 200 calls at once", float64(resident+grown)/(1<<20), mebibytes, atMost(20))
	}
	return nil
}
