package attack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"attestd/internal/harness"
)

// row is a row of the table: an attacker, and what each check found of the attacker's rewrites.
type row struct {
	who     string
	attacks []rewriting
	found   [][]string // by rewrite and check; "" for nothing
}

const (
	yes  = "found"
	no   = "–"
	some = "some"
)

// seeNothing is how long a server that is not expected to find anything is watched. Its checks
// begin at once, and take milliseconds here.
const seeNothing = 2 * time.Second

// rewrites rewrites the history of a stopped service as different attackers can, and determines
// which checks find it. The table in docs/security/rewriting.md must match the result, and every
// attacker must be found by a check.
func rewrites(ctx context.Context, r *run) error {
	documented, err := documentedTable(header(), len(notices))
	if err != nil {
		return err
	}
	h, err := newHistory(ctx, r)
	if err != nil {
		return err
	}
	if err := h.untouched(ctx); err != nil {
		return err
	}
	rows := attackers(short())
	if err := h.measure(ctx, rows, documented); err != nil {
		return err
	}
	n, lines := 0, []string{header()}
	for i := range rows {
		n += len(rows[i].attacks)
		line := rows[i].line()
		lines = append(lines, line)
		if !strings.Contains(line, "| "+yes) {
			r.Errorf("nothing finds: %s", rows[i].who)
		}
		if want := documented[rows[i].who]; line != want {
			r.Errorf("docs/security/rewriting.md says %q, and measured is %q: %q", want, line, rows[i].found)
		}
		delete(documented, rows[i].who)
	}
	for who := range documented {
		r.Errorf("docs/security/rewriting.md has a row that was not measured: %s", who)
	}
	r.Count(n, "rewritings")
	r.Count(n*len(notices), "looks at them")
	table, err := scribbles(ctx, r)
	r.Log(strings.Join(lines, "\n") + "\n\n" + table)
	return err
}

// attackers returns the rows of the table. In the short form, some attackers perform only some of
// their rewrites.
func attackers(short bool) (rows []row) {
	for _, a := range slices.Concat(withoutKey, ofIssuers) {
		rows = append(rows, row{who: "the file: " + a.what, attacks: []rewriting{a}})
	}
	for _, a := range withKey {
		rows = append(rows, row{who: "the file and the key: " + a.what, attacks: []rewriting{a}})
	}
	all := withKey
	if short {
		all = []rewriting{withKey[0], withKey[5], withKey[7]}
	}
	checkpoints := (*scene).forget
	further := []struct {
		who   string
		steps []func(*scene, context.Context) error
	}{
		{"any of these with the key, and the checkpoints in the file deleted", []func(*scene, context.Context) error{checkpoints}},
		{"the same, and the head file written to fit", []func(*scene, context.Context) error{checkpoints, (*scene).forgeHeads}},
		{"the same, and the head file and every witness are in the same hands", []func(*scene, context.Context) error{checkpoints, (*scene).forgeHeads, (*scene).takeWitness}},
	}
	for _, f := range further {
		line := row{who: f.who}
		for _, a := range all {
			line.attacks = append(line.attacks, rewriting{what: a.what, do: func(ctx context.Context, s *scene) error {
				err := a.do(ctx, s)
				for _, step := range f.steps {
					if err == nil {
						err = step(s, ctx)
					}
				}
				return err
			}})
		}
		rows = append(rows, line)
	}
	return rows
}

// untouched checks that nothing is found in an unchanged history.
func (h *history) untouched(ctx context.Context) error {
	found, err := h.carryOut(ctx, rewriting{what: "nothing", do: func(context.Context, *scene) error { return nil }}, nil)
	for i, text := range found {
		if text != "" {
			h.Errorf("%s finds something where nothing was done: %s", notices[i].column, text)
		}
	}
	return err
}

// measure performs all rewrites, several at a time, because most of the time is spent watching
// servers that find nothing.
func (h *history) measure(ctx context.Context, rows []row, documented map[string]string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	turns := make(chan struct{}, 6)
	var all sync.WaitGroup
	var mu sync.Mutex
	done, total := 0, 0
	for i := range rows {
		rows[i].found = make([][]string, len(rows[i].attacks))
		total += len(rows[i].attacks)
	}
	for i := range rows {
		expected := cells(documented[rows[i].who])
		for j, a := range rows[i].attacks {
			all.Go(func() {
				turns <- struct{}{}
				defer func() { <-turns }()
				if ctx.Err() != nil {
					return
				}
				found, err := h.carryOut(ctx, a, expected)
				if err != nil {
					cancel(fmt.Errorf("%s: %s: %w", rows[i].who, a.what, err))
				}
				rows[i].found[j] = found
				mu.Lock()
				defer mu.Unlock()
				done++
			})
		}
	}
	all.Wait()
	return context.Cause(ctx)
}

// carryOut performs one rewrite in a copy of the history, and runs every check.
func (h *history) carryOut(ctx context.Context, a rewriting, expected []string) ([]string, error) {
	folder, err := h.Lab.Folder()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	s, err := h.copyTo(folder)
	if err == nil {
		s.undone = a.undone
		err = a.do(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	found := make([]string, len(notices))
	for i, n := range notices {
		wait := seeNothing
		if i < len(expected) && expected[i] == yes {
			wait = harness.Patience
		}
		if found[i], err = n.look(ctx, s, wait); err != nil {
			return nil, fmt.Errorf("%s: %w", n.column, err)
		}
	}
	return found, nil
}

func header() string {
	line, rule := "| attacker has |", "|---|"
	for _, n := range notices {
		line += " " + n.column + " |"
		rule += "---|"
	}
	return line + "\n" + rule
}

// line returns the row in the format of the document.
func (r *row) line() string {
	line := "| " + r.who + " |"
	for i := range notices {
		n := 0
		for _, found := range r.found {
			if found[i] != "" {
				n++
			}
		}
		switch {
		case n == 0:
			line += " " + no + " |"
		case r.found[0][i] == undone:
			line += " " + undone + " |"
		case n == len(r.found):
			line += " " + yes + " |"
		default:
			line += " " + some + " |"
		}
	}
	return line
}

// cells returns the cells of a line after the first.
func cells(line string) []string {
	parts := strings.Split(strings.Trim(line, "|"), "|")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts[1:]
}

// documentedTable returns the lines of a table in docs/security/rewriting.md, by their first cell.
func documentedTable(header string, columns int) (map[string]string, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "security", "rewriting.md"))
	if err != nil {
		return nil, err
	}
	_, table, found := strings.Cut(string(text), "\n"+header+"\n")
	if !found {
		return nil, fmt.Errorf("docs/security/rewriting.md has no table %q", header)
	}
	documented := map[string]string{}
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			break
		}
		who := strings.TrimSpace(strings.Split(line, "|")[1])
		if _, twice := documented[who]; twice || len(cells(line)) != columns || slices.Contains(cells(line), "") {
			return nil, fmt.Errorf("docs/security/rewriting.md: the row %q", line)
		}
		documented[who] = line
	}
	return documented, nil
}
