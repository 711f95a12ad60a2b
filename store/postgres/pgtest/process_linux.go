package pgtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// attributes makes a program run as the account, and shut down when the thread that started it
// ends.
func attributes(a *account) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if a != nil {
		attributes.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attributes
}

// memory returns a folder in memory with room for some servers, or "".
func memory() string {
	const folder, room = "/dev/shm", 2 << 30
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil || s.Bavail*uint64(s.Bsize) < room {
		return ""
	}
	return folder
}

// kill ends the postmaster and all its children with SIGKILL. It suspends the postmaster first, so
// that it starts no more children. Their IDs also stay valid, because only the postmaster can wait
// for them.
func (s *server) kill() error {
	if !s.running() {
		return nil
	}
	if err := s.postmaster.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	if err := s.poll("the server does not halt", func(context.Context) (bool, error) {
		state, _, err := status(s.postmaster.Pid)
		return state == 'T', err
	}); err != nil {
		return err
	}
	children, err := children(s.postmaster.Pid)
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	for _, child := range children {
		if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
			return fmt.Errorf("pgtest: %w", err)
		}
	}
	if err := s.poll("the server's children do not end", func(context.Context) (bool, error) {
		for _, child := range children {
			if state, _, err := status(child); err != nil || state != 'Z' {
				return false, err
			}
		}
		return true, nil
	}); err != nil {
		return err
	}
	return s.end(syscall.SIGKILL)
}

// halt suspends all processes of the server, and resume resumes them.
func (s *server) halt() error { return s.signal(syscall.SIGSTOP) }

func (s *server) resume() error { return s.signal(syscall.SIGCONT) }

func (s *server) signal(signal syscall.Signal) error {
	if err := s.postmaster.Signal(signal); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	children, err := children(s.postmaster.Pid)
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	for _, child := range children {
		if err := syscall.Kill(child, signal); err != nil && err != syscall.ESRCH {
			return fmt.Errorf("pgtest: %w", err)
		}
	}
	return nil
}

// children returns the IDs of the child processes that a process has not waited for.
func children(parent int) ([]int, error) {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, entry := range entries {
		id, err := strconv.Atoi(filepath.Base(entry))
		if err != nil {
			return nil, err
		}
		if _, p, err := status(id); err == nil && p == parent { // on an error it has ended
			found = append(found, id)
		}
	}
	return found, nil
}

// status returns the state of a process ('T' stopped, 'Z' zombie) and its parent, from proc(5).
func status(id int) (state byte, parent int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return 0, 0, err
	}
	// the preceding name may contain anything
	_, err = fmt.Sscanf(string(text[bytes.LastIndexByte(text, ')')+1:]), " %c %d", &state, &parent)
	return state, parent, err
}
