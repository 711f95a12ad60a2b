package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"attestd/internal/harness"
)

// hostileNames returns names that end a line and begin another, clear and color the terminal, set
// its title, or reverse text. Each contains hostileMark, so that it can be found in output.
func hostileNames() (names []string) {
	all := "bot"
	for _, c := range []string{
		"\n", "\r", "\r\n", "\v", "\f", "\b\b\b\b", "\t", "\x00", "\x7f", "\x1b[2J\x1b[H", "\x1b]0;title\x07",
		"\x1b]8;;http://evil\x1b\\", "\x1bP+q\x1b\\",
		"\u0085", "\u009b31m", "\u009d0;t\u009c", "\u061c", "\u200e", "\u200f", "\u202a", "\u202b", "\u202c", "\u202d",
		"\u202e", "\u2066", "\u2067", "\u2068", "\u2069", "\u2028", "\u2029",
	} {
		names, all = append(names, "bot"+c+"FORGED 1 valid "+hostileMark), all+c+"FORG"
	}
	return append(names, all+hostileMark)
}

const hostileMark = "held-by-nobody"

// hostileRecords creates records whose names contain terminal control sequences, and prints them
// with every tool that an auditor uses.
func hostileRecords(ctx context.Context, r *harness.Run) error {
	s, _, err := r.Lab.ServeNew(ctx, "--rate-limits", "off")
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }()
	c := &harness.Client{Addr: s.Addr}
	defer c.Close()
	key, err := c.Register("acme")
	if err != nil {
		return err
	}
	names := hostileNames()
	for _, name := range names {
		body := marshal(object{"agentId": name, "actionType": name, "payload": object{name: name}})
		if err := c.Call(201, harness.Request{Method: "POST", Path: "/v1/attest", Key: key, Body: string(body)},
			nil); err != nil {
			return err
		}
	}
	p := &printing{Run: r, env: append(os.Environ(), "ATTESTD_URL=http://"+s.Addr, "ATTESTD_KEY="+key, "PYTHONUTF8=1")}
	if p.folder, err = r.Lab.Folder(); err != nil {
		return err
	}
	save := func(name, path string) error {
		a, err := c.Do(harness.Request{Method: "GET", Path: path, Key: key})
		if err == nil && a.Status != http.StatusOK {
			err = fmt.Errorf("GET %s answers %d: %.300s", path, a.Status, a.Body)
		}
		return errors.Join(err, os.WriteFile(filepath.Join(p.folder, name), a.Body, 0o600))
	}
	err = errors.Join(save("check.py", "/check.py"), save("check.mjs", "/check.mjs"), save("report.jsonl", "/v1/report"))
	if err != nil {
		return err
	}
	checkers, err := p.checkers(ctx)
	if err != nil {
		return err
	}
	for i, name := range names {
		r.Step(i, len(names), "records")
		if r.Short && i != len(names)-1 {
			continue
		}
		evidence, twice := fmt.Sprintf("evidence-%d.json", i), fmt.Sprintf("twice-%d.json", i)
		quoted := marshal(name)
		member := fmt.Sprintf(`{%s:1,%s:2}`, quoted, quoted)
		err := errors.Join(save(evidence, fmt.Sprintf("/v1/evidence/%d", i)),
			os.WriteFile(filepath.Join(p.folder, twice), []byte(member), 0o600))
		if err != nil {
			return err
		}
		for _, checker := range checkers {
			p.print(ctx, true, append(slices.Clone(checker), evidence)...)
			// it does not print repeated members
			p.print(ctx, checker[1] != "check.py", append(slices.Clone(checker), twice)...)
		}
	}
	for _, args := range [][]string{
		{"records", "--limit", "1000"}, {"records", "--csv"}, {"records", "--text", hostileMark}, {"report", "report.jsonl"}, {"tail", "--from", "0"},
	} {
		p.print(ctx, true, append([]string{r.Lab.Binary()}, args...)...)
	}
	r.Count(len(names), "records")
	r.Count(p.printed, "times printed")
	return s.Stop()
}

// printing runs programs that print hostile records.
type printing struct {
	*harness.Run
	folder  string
	env     []string
	printed int
}

// checkers returns the programs that check evidence and proofs, if their interpreters are
// installed.
func (p *printing) checkers(ctx context.Context) (list [][]string, err error) {
	list = append(list, []string{p.Lab.Binary(), "check"})
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(ctx, python, "-c", "import cryptography").Run() == nil {
			list = append(list, []string{python, "check.py"})
			break
		}
	}
	if _, err := exec.LookPath("node"); err == nil {
		list = append(list, []string{"node", "check.mjs"})
	}
	if len(list) < 3 && os.Getenv("CI") == "true" {
		return nil, errors.New("there is no Python with the package cryptography, or no Node")
	}
	p.Count(len(list), "checkers")
	return list, nil
}

// print runs a program and checks its output. If shows is true, the output must include part of a
// record's names.
func (p *printing) print(ctx context.Context, shows bool, command ...string) {
	ctx, cancel := context.WithTimeout(ctx, harness.Patience)
	defer cancel()
	name := strings.Join(append([]string{filepath.Base(command[0])}, command[1:]...), " ")
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = p.folder, p.env
	out := &lines{enough: cancel}
	if command[1] == "tail" { // it does not end by itself
		out.most = len(hostileNames())
	}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run() // many must fail
	p.printed++
	text := out.text.String()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		p.Failf("%s: %v", name, err)
	}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSuffix(line, "\r") // in CSV
		if strings.ContainsFunc(line, func(c rune) bool {
			return unicode.IsControl(c) || unicode.In(c, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
		}) {
			p.Failf("%s prints raw: %q", name, line)
		}
		if strings.HasPrefix(line, "FORG") {
			p.Failf("%s prints a line that a record began: %q", name, line)
		}
	}
	if shows && !strings.Contains(text, hostileMark) {
		p.Failf("%s shows nothing of a record: %.300q", name, text)
	}
}

// lines collects the output of a program, and ends it after a number of lines; 0 for no limit.
type lines struct {
	text   bytes.Buffer
	most   int
	enough func()
}

func (l *lines) Write(b []byte) (int, error) {
	l.text.Write(b)
	if l.most > 0 && bytes.Count(l.text.Bytes(), []byte("\n")) >= l.most {
		l.enough()
	}
	return len(b), nil
}
