// Package kindtest has what tests of checkers share about kinds of files: a sample of each kind,
// and the table of docs/auditors.md that says which checker reads it.
package kindtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"attestd/chain/filekind"
)

// The columns of the table.
const (
	Check    = "`attestd check`"
	Report   = "`attestd report`"
	Scripts  = "`check.py`, `check.mjs`"
	Verifier = "`verifier.html`"
	Console  = "the console"
)

// No is the content of a cell of a checker that does not read the kind.
const No = "–"

// root is the folder of the repository.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "../../..")
}

// Table returns the cells of the table, by kind and column.
func Table() (map[filekind.Kind]map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(root(), "docs/auditors.md"))
	if err != nil {
		return nil, err
	}
	_, part, _ := strings.Cut(string(text), "\n## Which checker reads what\n\n")
	var columns []string
	table := make(map[filekind.Kind]map[string]string)
	for i, line := range strings.Split(part, "\n") {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		switch {
		case i == 0:
			columns = cells
		case i > 1:
			kind, err := kindOf(cells[0])
			if err != nil {
				return nil, err
			}
			table[kind] = make(map[string]string)
			for at, cell := range cells {
				table[kind][columns[at]] = cell
			}
		}
	}
	for _, kind := range filekind.All() {
		if len(table[kind]) != 6 {
			return nil, fmt.Errorf("docs/auditors.md does not say who reads %s in six columns", kind)
		}
	}
	return table, nil
}

// kindOf returns the kind that the first cell of a row names.
func kindOf(cell string) (filekind.Kind, error) {
	name, _, _ := strings.Cut(cell, ", ")
	for _, kind := range filekind.All() {
		if is, _, _ := strings.Cut(kind.Is(), ": "); is == name {
			return kind, nil
		}
	}
	return "", fmt.Errorf("docs/auditors.md names a file that is of no kind: %s", cell)
}

// Case is a file and its kind, of the table that all checkers share.
type Case struct{ Name, File, Kind string }

// Cases returns that table.
func Cases() (cases []Case, err error) {
	text, err := os.ReadFile(filepath.Join(root(), "chain/filekind/kinds.json"))
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	return cases, err
}

// Samples returns a file of each kind. Those of evidence, a session and a report are genuine, and
// hold with the key SHA256:M54v-RdjBQe2pCO1zghOKF0fpl2Ts-J6YZXTu-vJriM. The others only begin as a
// genuine one does.
func Samples() (map[filekind.Kind]string, error) {
	cases, err := Cases()
	if err != nil {
		return nil, err
	}
	samples := make(map[filekind.Kind]string)
	for _, c := range cases {
		if _, has := samples[filekind.Kind(c.Kind)]; !has {
			samples[filekind.Kind(c.Kind)] = c.File
		}
	}
	delete(samples, filekind.Unknown)
	for kind, name := range map[filekind.Kind]string{filekind.Evidence: "whole.json", filekind.Session: "session-complete.jsonl", filekind.Report: "report.jsonl"} {
		text, err := os.ReadFile(filepath.Join(root(), "chain/evidence/testdata", name))
		if err != nil {
			return nil, err
		}
		samples[kind] = string(text)
	}
	return samples, nil
}
