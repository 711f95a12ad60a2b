package attack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"attestd/internal/harness"
)

// scribble is what an attacker who can write the database, but has no key, writes into the tables
// of clients, issuers and tokens, and then requests.
type scribble struct {
	what       string
	statements []string
	use        harness.Request
	// what an answer of 200 to use has where it obeys what was written; "" for anything
	obeyed string
}

const (
	refuses = "refuses"
	obeys   = "obeys"
)

const scribblesHeader = "| written into the file | before the start | while a server runs |\n|---|---|---|"

// scribbles determines which of these a server obeys that starts on such a file, or already runs.
// The table in docs/security/rewriting.md must match the result.
func scribbles(ctx context.Context, r *run) (table string, err error) {
	documented, err := documentedTable(scribblesHeader, 2)
	if err != nil {
		return "", err
	}
	d, err := newDesk(ctx, r)
	if err != nil {
		return "", err
	}
	defer d.elsewhere.Close()
	for _, sound := range d.sound() {
		if found, err := d.scribble(ctx, sound, false); err != nil || !found {
			return "", errors.Join(err, fmt.Errorf("what is sound is refused: %s", sound.what))
		}
	}
	all := d.scribbles()
	lines := make([]string, len(all))
	turns := make(chan struct{}, 6)
	var wg sync.WaitGroup
	failures := make([]error, len(all))
	for i, s := range all {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			lines[i] = "| " + s.what + " |"
			for _, running := range []bool{false, true} {
				found, err := d.scribble(ctx, s, running)
				failures[i] = errors.Join(failures[i], err)
				lines[i] += map[bool]string{false: " " + refuses + " |", true: " " + obeys + " |"}[found]
			}
		})
	}
	wg.Wait()
	if err := errors.Join(failures...); err != nil {
		return "", err
	}
	for i, s := range all {
		if want := documented[s.what]; lines[i] != want {
			r.Errorf("docs/security/rewriting.md says %q, and measured is %q", want, lines[i])
		}
		delete(documented, s.what)
	}
	for what := range documented {
		r.Errorf("docs/security/rewriting.md has a row that was not measured: %s", what)
	}
	if n := d.asked.Load(); n > 0 {
		r.Errorf("an address that was written into the file was asked %d times", n)
	}
	r.Count(2*len(all), "writes into the tables of clients, issuers and tokens")
	return scribblesHeader + "\n" + strings.Join(lines, "\n"), nil
}

// scribble writes into a copy of the file and reports whether a server obeys that.
func (d *desk) scribble(ctx context.Context, s scribble, running bool) (obeyed bool, err error) {
	folder, err := d.Lab.Folder()
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(folder)
	db := filepath.Join(folder, dbFile)
	for _, rest := range []string{"", headsOf} {
		if err := copyFile(d.db+rest, db+rest); err != nil {
			return false, err
		}
	}
	write := func() error {
		if len(s.statements) == 0 {
			return nil
		}
		return execOn(ctx, db, s.statements...)
	}
	if !running {
		err = write()
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", s.what, err)
	}
	server, err := d.Lab.Serve(ctx, db, deskFlags...)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	c := &harness.Client{Addr: server.Addr}
	defer c.Close()
	if running {
		if err := write(); err != nil {
			return false, fmt.Errorf("%s: %w", s.what, err)
		}
	}
	answer, err := c.Do(s.use)
	if err != nil {
		return false, fmt.Errorf("%s: %w", s.what, err)
	}
	return answer.Status < 400 && strings.Contains(string(answer.Body), s.obeyed), nil
}
