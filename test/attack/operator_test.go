package attack

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"attestd/chain/evidence"
	"attestd/chain/evidence/evidencetest"
)

// claim is what a file of an operator must not bring a checker to say.
type claim int

const (
	// that the agent's own key signed it: with the agent's key pinned, the file must fail
	ownKey claim = iota
	// that the session is complete: the file may hold, and must say that something is missing
	completeness
	// what the agent's key signed is shown as it was: the file holds, and must say what it leaves
	// open
	silence
)

// operatorsFile is a file that an operator with every key of a company has made, and not the key of
// an agent.
type operatorsFile struct {
	name    string
	file    []byte
	pin     string // a key that the person knows from the agent
	against claim
	message []string // what a checker must say, where it holds
}

// operator makes files with every key of a company, in which an agent's own key seems to have
// signed what it did not, or a session seems to be complete that is not. Every checker checks each
// with the agent's key pinned and without, and all must give the same verdict.
func operator(ctx context.Context, r *run) error {
	honest, err := newHonest(ctx)
	if err != nil {
		return err
	}
	files := slices.Concat(honest.records(), honest.sessions())
	if n := len(files); n < 200 {
		return fmt.Errorf("only %d files", n)
	}
	if short() {
		r.Chance.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
		files = files[:100]
	}
	for _, c := range honest.genuine() {
		if v := checkInProcess(c.file, c.pin); v.Outcome != evidence.Holds || !saysAll(c.message, v.Checked) {
			return fmt.Errorf("what is genuine is refused, %s: %s %s %s", c.name, v.Code, v.Reason, v.Checked)
		}
	}
	checkers, err := evidenceCheckers(ctx, r)
	if err != nil {
		return err
	}
	var given []judged
	for _, f := range files {
		for _, pin := range []string{f.pin, ""} {
			given = append(given, judged{File: f.file, Key: evidencetest.Fingerprint(0), Pin: pin})
		}
	}
	opinions := make([][]opinion, len(checkers))
	for i, c := range checkers {
		if opinions[i], err = c.judge(ctx, given); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	for n, f := range files {
		for i, c := range checkers {
			pinned, open := opinions[i][2*n], opinions[i][2*n+1]
			if why := f.through(pinned, open); why != "" {
				r.Errorf("%s: %s %s: %s", f.name, c.name, why, pinned.Verdict)
			}
			if pinned.Verdict != opinions[0][2*n].Verdict || open.Verdict != opinions[0][2*n+1].Verdict {
				r.Errorf("%s: %s says %s and %s, %s says %s and %s", f.name, c.name, pinned.Verdict, open.Verdict, checkers[0].name,
					opinions[0][2*n].Verdict, opinions[0][2*n+1].Verdict)
			}
		}
	}
	r.Count(len(files), "files")
	r.Count(len(checkers), "checkers")
	return nil
}

// through says how a file has brought a checker to say what it must not, with the agent's key
// pinned or without a pin; "" where it has not.
func (f *operatorsFile) through(pinned, open opinion) string {
	message := func(o opinion, text string) bool { return strings.Contains(strings.Join(o.Said, "\n"), text) }
	switch {
	case open.holds() && message(open, "own key"):
		return "says without a pin that it is the agent's own key"
	case f.against == ownKey && pinned.holds():
		return "holds with the agent's key pinned"
	case f.against == completeness && (pinned.holds() && message(pinned, "complete:") || open.holds() && message(open, "complete:")):
		return "says that the session is complete"
	case f.against == silence && !pinned.holds():
		return "refuses what the agent's key has signed"
	case f.against == silence && (!saysAll(f.message, pinned.Said) || !saysAll(f.message, open.Said)):
		return "does not say what it leaves open"
	}
	return ""
}

// saysAll reports whether each text is a part of the output. The console begins its sentences in
// upper case.
func saysAll(texts, lines []string) bool {
	all := strings.ToLower(strings.Join(lines, "\n"))
	return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(all, strings.ToLower(text)) })
}
