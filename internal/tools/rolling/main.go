// Rolling upgrades the servers of one PostgreSQL database from earlier versions to this one, one
// server at a time and under load, and checks that nothing is lost: every acknowledged record is
// there once, `attestd verify` and `attestd check --lines` end with status 0, and every company can
// be changed at every server. The earlier versions are built from the history of the source tree,
// which must be there.
//
//	go -C internal/tools run ./rolling --postgres postgres://postgres@localhost/postgres
//	go -C internal/tools run ./rolling --postgres URL --short --only schema-17
//
// The role must be able to create databases. Some minutes, most of them to build six versions.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"attestd/internal/harness"
)

// last is, for each schema, the commit after the last one whose programs make it. Schema 15 was
// never one that a program made.
var last = []struct{ schema, before string }{
	{"14", "06330b68"}, {"16", "119137a3"}, {"17", "e14d065c"}, {"18", "f26dc93e"}, {"19", "85f4fb86"}, {"20", "e7725d70"},
}

func main() {
	var server string
	var cases []harness.Case
	for _, l := range last {
		cases = append(cases, harness.Case{Name: "schema-" + l.schema, About: "from the last version of schema " + l.schema,
			Run: func(ctx context.Context, r *harness.Run) error { return roll(ctx, r, server, l.schema, l.before+"^") }})
	}
	flags, options := harness.Flags("rolling", "Upgrade servers of earlier versions one at a time, under load, and say whether anything was lost.", cases)
	flags.StringVar(&server, "postgres", "", "`URL` of a PostgreSQL server, where databases are made and dropped")
	os.Exit(harness.Main(flags, options, cases))
}

func roll(ctx context.Context, r *harness.Run, server, schema, commit string) (err error) {
	if server == "" {
		return errors.New("--postgres must name a server")
	}
	dir, err := os.MkdirTemp("", "attestd-rolling-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	root, err := harness.Root(ctx)
	if err != nil {
		return err
	}
	former, current := filepath.Join(dir, "former"), filepath.Join(dir, "current")
	if err := harness.BuildRelease(ctx, root, current, "2.0.0"); err != nil {
		return err
	}
	source := filepath.Join(dir, "source")
	if err := checkout(ctx, root, commit, source); err != nil {
		return err
	}
	if err := harness.BuildRelease(ctx, source, former, "1.0.0"); err != nil {
		return err
	}
	address, drop, err := harness.CreateDatabase(ctx, server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop()) }()
	each := 400
	if r.Short {
		each = 50
	}
	done, err := harness.Rolling{Old: former, New: current, URL: address, Each: each,
		OldFlags: []string{"--allowed-origins", "https://former.example"},
		NewFlags: []string{"--allowed-origins", "https://current.example", "--trusted-proxies", "192.0.2.0/24", "--keep-passports", "48h"},
		Say:      func(format string, args ...any) { r.Step(0, 0, fmt.Sprintf(format, args...)) }}.Run(ctx, dir)
	r.Count(done.Records, "records")
	r.Count(done.Companies, "companies")
	r.Count(done.Retries, "retries")
	r.Count(int(done.Longest.Milliseconds()), "ms of the longest")
	return err
}

// checkout writes the tree of a commit into a new folder.
func checkout(ctx context.Context, root, commit, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	archive := exec.CommandContext(ctx, "git", "-C", root, "archive", commit)
	unpack := exec.CommandContext(ctx, "tar", "-x", "-C", to)
	var err error
	if unpack.Stdin, err = archive.StdoutPipe(); err != nil {
		return err
	}
	var said strings.Builder
	archive.Stderr, unpack.Stderr = &said, &said
	if err = unpack.Start(); err == nil {
		err = errors.Join(archive.Run(), unpack.Wait())
	}
	if err != nil {
		return fmt.Errorf("the version before %s, for which the whole history must be there: %w: %s", commit, err, said.String())
	}
	return nil
}
