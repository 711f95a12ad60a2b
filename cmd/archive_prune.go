package cmd

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/server/local"
)

// prune has payloads pruned, beside a server or without one, until none is left: those of the
// actions in an archive, whose file whoever has the database reads first, or without one those of
// which that was begun.
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
