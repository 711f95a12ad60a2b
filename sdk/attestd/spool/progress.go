package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"attestd/internal/regular"
)

// sentAs ends the name of the file that says which lines of a sealed queue are done.
const sentAs = ".sent"

// progress is what has become of the lines of one sealed queue. Its file has a line for each step,
// with a checksum as the lines of a queue have one: the queue that it is about, then "12 40" where
// lines 12 to 39 are done, and "7 key K" where line 7 is sent under the key K. What cannot be read
// of it counts for nothing: then lines are sent again, under the same keys.
type progress struct {
	path string
	done []bool         // by line of the queue
	keys map[int]string // in place of that of the line
	new  bool           // the file is not there, or is about another queue
	head string
}

// openProgress reads what has become of a queue with this text and number of lines.
func openProgress(path string, queue []byte, lines int) (*progress, error) {
	p := &progress{path: path, done: make([]bool, lines), keys: map[int]string{}, head: fmt.Sprintf("queue %d %08x", len(queue), checksum(queue))}
	text, err := regular.Read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	first := true
	for line := range bytes.Lines(text) {
		step, ok := readStep(line)
		if first && (!ok || step != p.head) {
			break
		}
		if !first && ok {
			p.apply(step)
		}
		first = false
	}
	p.new = first
	return p, nil
}

func readStep(line []byte) (step string, ok bool) {
	line, whole := bytes.CutSuffix(line, []byte("\n"))
	if !whole || len(line) < checksumSize {
		return "", false
	}
	want, err := strconv.ParseUint(string(line[:checksumSize-1]), 16, 32)
	return string(line[checksumSize:]), err == nil && checksum(line[checksumSize:]) == uint32(want)
}

func (p *progress) apply(step string) {
	first, rest, _ := strings.Cut(step, " ")
	from, err := strconv.Atoi(first)
	if err != nil || from < 0 || from >= len(p.done) {
		return
	}
	if key, found := strings.CutPrefix(rest, "key "); found {
		p.keys[from] = key
		return
	}
	to, err := strconv.Atoi(rest)
	if err != nil || to > len(p.done) {
		return
	}
	for n := from; n < to; n++ {
		p.done[n] = true
	}
}

// write keeps steps: it returns when they are on disk.
func (p *progress) write(steps ...string) error {
	if p.new { // what an older queue of the same number has left
		if err := os.Remove(p.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		steps = append([]string{p.head}, steps...)
	}
	var lines []byte
	for _, step := range steps {
		lines = append(fmt.Appendf(lines, "%08x ", checksum([]byte(step))), step...)
		lines = append(lines, '\n')
	}
	if err := appendSynced(p.path, lines); err != nil {
		return err
	}
	p.new = false
	for _, step := range steps {
		p.apply(step)
	}
	return nil
}

// finish keeps that lines are done. They ascend. Where the disk does not take that, this process
// alone remembers it: sending needs no room, and what the next process sends again under the same
// keys is recorded once.
func (p *progress) finish(lines []int) {
	var steps []string
	for i := 0; i < len(lines); {
		from := i
		for i++; i < len(lines) && lines[i] == lines[i-1]+1; i++ {
		}
		steps = append(steps, fmt.Sprintf("%d %d", lines[from], lines[i-1]+1))
	}
	if p.write(steps...) != nil {
		for _, step := range steps {
			p.apply(step)
		}
	}
}

// rekey keeps under which key a line is sent from now on.
func (p *progress) rekey(line int, key string) error {
	return p.write(fmt.Sprintf("%d key %s", line, key))
}

// left are the numbers of the lines that are not done.
func (p *progress) left() (lines []int) {
	for n, done := range p.done {
		if !done {
			lines = append(lines, n)
		}
	}
	return lines
}
