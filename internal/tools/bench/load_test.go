package main

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"
)

// When a disk stall outlasts a round, the round is repeated once the server answers.
func TestStalledRoundIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer here.Close()
		go func() {
			asked := bufio.NewScanner(there)
			for takes := time.Second; asked.Scan(); takes = time.Millisecond {
				time.Sleep(takes)
				_, _ = io.WriteString(there, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		}()
		self := &child{cmd: &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}}
		s := &side{child: self, status: 200, request: func(int) []byte { return []byte("GET\n") }, clients: []*client{newClient(here)}}
		r, err := s.load(t.Context(), 100*time.Millisecond, 0)
		if err != nil || r.answers < 99 {
			t.Errorf("%d answers, %v; want those of a round after the stall", r.answers, err)
		}
	})
}
