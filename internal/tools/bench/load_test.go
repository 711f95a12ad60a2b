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
	if r, err := loadOn(t, time.Second, time.Millisecond); err != nil || r.answers < 99 {
		t.Errorf("%d answers, %v; want those of a round after the stall", r.answers, err)
	}
}

// A machine on which one answer takes longer than a round is measured too.
func TestRoundLastsAsLongAsAnAnswer(t *testing.T) {
	t.Parallel()
	if r, err := loadOn(t, 700*time.Millisecond, 700*time.Millisecond); err != nil || r.answers == 0 {
		t.Errorf("%d answers, %v; want some", r.answers, err)
	}
}

// loadOn is a round of 100 ms on a server whose first answer and whose later ones take so long.
func loadOn(t *testing.T, first, later time.Duration) (r round, err error) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer here.Close()
		go func() {
			asked := bufio.NewScanner(there)
			for takes := first; asked.Scan(); takes = later {
				time.Sleep(takes)
				_, _ = io.WriteString(there, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		}()
		self := &child{cmd: &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}}
		s := &side{child: self, status: 200, request: func(int) []byte { return []byte("GET\n") }, clients: []*client{newClient(here)}}
		r, err = s.load(t.Context(), 100*time.Millisecond, 0)
	})
	return r, err
}
