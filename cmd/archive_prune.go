package cmd

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"attestd/internal/printable"
	"attestd/server/local"
)

// prune has payloads pruned, beside a server or without one, until none is left.
func (f *operatorFlags) prune(ctx context.Context, p local.Prune) (done local.Pruned, err error) {
	report, finish := progress()
	defer finish()
	err = f.change(ctx, func(o operations) error {
		for {
			if done, err = o.Prune(ctx, p); err != nil || done.Left == 0 {
				return err
			}
			p.Records = 0 // it was begun
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
	done, err := f.prune(cmd.Context(), local.Prune{CompanyID: company})
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
