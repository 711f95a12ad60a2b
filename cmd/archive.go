package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/lines"
	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/server/local"
	"attestd/store"
	"attestd/store/admin"
)

func archiveCommand(schema string) *cobra.Command {
	f := operatorFlags{schema: schema}
	var company, before, out string
	var force, prunes, asJSON bool
	cmd := &cobra.Command{
		Use:   "archive --company ID --before TIME --out FILE",
		Short: "Write a company's records from before a time into one file that is checked alone",
		Long: `Write all records of both logs of a company from before TIME into one file, with the company's keys
and a checkpoint that the company signs now. attestd check FILE --key FINGERPRINT checks it
years later, without a server and without a database: that its records are the first of both
logs, that none of them is missing or changed, and that today's logs continue them.

The file gets its name, with mode 0600, after it was synced, read back and checked. Prints its
SHA-256 and the fingerprint of the key: store both elsewhere. The database is not changed, except
that the checkpoint is stored as published. TIME is in RFC 3339, or relative to now, as in 90d.

While a server has the database file open, the server signs, over the socket next to the file,
which only the server's user and root can use. The command reads the records itself.

With --prune, the payloads of the actions in the archive are then deleted from the database, which
nothing but the archive brings back. Their records stay, with their times, hashes, signatures and
delegations, and every proof of them. A control record that the company signs says which payloads
they were, and which archive has them; verify holds the rest against it. Before that record is made,
the server, or this command where none runs, reads the archive and checks that it holds and has
these very records. The archive must end at least a day ago, by a clock that has not leapt, and
webhooks and the export must have sent its records. What was interrupted is finished by --company
and --prune alone.

The archive contains everything that agents recorded. Protect it as you protect the database.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, ok := cli.ParseInstant(before, time.Now())
			if company != "" && prunes && before == "" && out == "" {
				return f.finishPruning(cmd, company, asJSON)
			}
			switch {
			case company == "" || before == "" || out == "":
				return cli.Usagef("--company, --before and --out are required")
			case !ok:
				return cli.Usagef("--before must be a time in RFC 3339, or one relative to now such as 90d, got %q", before)
			}
			made, err := f.archive(cmd.Context(), local.Archive{CompanyID: company, Before: chain.FormatTime(at)}, out, force)
			if err != nil {
				return err
			}
			if !asJSON {
				printable.Fprintf(cmd.OutOrStdout(), "archived %s of actions and %d of control of %s, from before %s, in %s (%s)\nSHA-256 %s\nkey %s\n",
					printable.Count(made.Actions, "record"), made.Control, made.CompanyID, made.Before, made.File, humanize.IBytes(uint64(made.Size)), made.SHA256, made.Key)
			}
			if prunes {
				pruned, err := f.prune(cmd.Context(), company, out)
				if err != nil {
					return fmt.Errorf("the archive %s is there, and not all payloads were pruned: %w", out, err)
				}
				if made.Pruned = &pruned.Records; !asJSON {
					printPruned(cmd.OutOrStdout(), company, pruned)
				}
			}
			if asJSON {
				return printable.JSON(cmd.OutOrStdout(), made)
			}
			return nil
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&company, "company", "", "`ID` of the company")
	cmd.Flags().StringVar(&before, "before", "", "`time` before which records are archived: RFC 3339, or relative to now as in 90d")
	cmd.Flags().StringVar(&out, "out", "", "`file` to write")
	cmd.Flags().BoolVar(&force, "force", false, "replace an archive that is there, if it has nothing that the database lacks")
	cmd.Flags().BoolVar(&prunes, "prune", false, "delete the payloads of the archived actions from the database")
	cmd.Flags().BoolVar(&f.ignoreExports, "ignore-exports", false, "without a server, prune what an export had not sent, because it is no more")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// archived is an archive that was made.
type archived struct {
	CompanyID string `json:"companyId"`
	Before    string `json:"before"`
	File      string `json:"file"`
	Size      int64  `json:"size"`
	SHA256    string `json:"sha256"`
	Key       string `json:"key"` // fingerprint
	Actions   int64  `json:"actions"`
	Control   int64  `json:"control"` // records
	// of actions whose payloads are no longer in the database
	Pruned *int64 `json:"pruned,omitempty"`
}

// archive makes an archive, with or without a running server.
func (f *operatorFlags) archive(ctx context.Context, a local.Archive, out string, force bool) (made archived, err error) {
	// before anything is signed
	if err := f.mayArchiveTo(ctx, a.CompanyID, out, force); err != nil {
		return made, err
	}
	var frame lines.Frame
	err = f.change(ctx, func(o operations) (err error) {
		frame, err = o.Archive(ctx, a)
		return err
	})
	if err != nil {
		return made, err
	}
	s, err := store.OpenReadOnly(ctx, f.db)
	if err != nil {
		return made, err
	}
	defer s.Close()
	report, finish := cli.Progress()
	v, size, err := admin.Archive(ctx, s, frame, out, admin.ArchiveOptions{Replace: force, Progress: report})
	finish()
	if err != nil {
		return made, err
	}
	if v.Outcome != evidence.Holds {
		return made, cli.ExitError{Status: cli.ExitInvalid, Err: fmt.Errorf("no archive was made, because it does not hold when it is read back: %s: %s", v.Code, v.Reason)}
	}
	made = archived{CompanyID: frame.CompanyID, Before: frame.Before, File: out, Size: size, SHA256: v.Archive.SHA256, Key: frame.Signer}
	for _, l := range frame.Logs {
		if l.Log == evidence.Control {
			made.Control = l.Records
		} else {
			made.Actions = l.Records
		}
	}
	return made, nil
}

// mayArchiveTo refuses a file that must stay. The database is read only for one that is there.
func (f *operatorFlags) mayArchiveTo(ctx context.Context, company, out string, force bool) error {
	if _, err := os.Lstat(out); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if !force {
		return fmt.Errorf("%w: %s exists", store.ErrRefused, out)
	}
	s, err := store.OpenReadOnly(ctx, f.db)
	if err != nil {
		return err
	}
	defer s.Close()
	return admin.MayArchiveTo(ctx, s, company, out, true)
}

// prune has payloads pruned, with or without a running server, until none is left: those of the
// actions in an archive, whose file the process with the database reads first, or without one those
// of which that was begun.
func (f *operatorFlags) prune(ctx context.Context, company, archive string) (done local.Pruned, err error) {
	report, finish := cli.Progress()
	defer finish()
	p := local.Prune{CompanyID: company}
	err = f.change(ctx, func(o operations) error {
		if archive != "" {
			file, err := os.Open(archive)
			if err != nil {
				return err
			}
			defer file.Close()
			if err := o.BeginPrune(ctx, p, file); err != nil {
				return err
			}
		}
		for {
			if done, err = o.Prune(ctx, p); err != nil || done.Left == 0 {
				return err
			}
			if report != nil {
				report("prune", done.Records-done.Left, done.Records)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	})
	return done, err
}

// finishPruning finishes what was interrupted.
func (f *operatorFlags) finishPruning(cmd *cobra.Command, company string, asJSON bool) error {
	done, err := f.prune(cmd.Context(), company, "")
	if err != nil {
		return err
	}
	if asJSON {
		return printable.JSON(cmd.OutOrStdout(), done)
	}
	printPruned(cmd.OutOrStdout(), company, done)
	return nil
}

func printPruned(out io.Writer, company string, done local.Pruned) {
	printable.Fprintf(out, "pruned: the payloads of the first %d records of actions of %s are in the archive with SHA-256 %s, and no longer in the database\n",
		done.Records, company, done.Archive)
}
