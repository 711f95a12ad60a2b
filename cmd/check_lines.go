package cmd

import (
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"attestd/chain/evidence"
	"attestd/chain/lines"
	"attestd/internal/printable"
)

// linesFlags are the flags of `attestd check --lines`.
type linesFlags struct {
	isSet   bool
	company string
}

func (f *linesFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.isSet, "lines", false, "the files have exported lines")
	cmd.Flags().StringVar(&f.company, "company", "", "`ID` of the company whose lines are checked, when there are several (with --lines)")
}

// check checks files of exported lines, in their order.
func (f linesFlags) check(out io.Writer, paths []string, trust evidence.Trust, asJSON bool) error {
	var files []lines.File
	for _, path := range paths {
		opened, err := openNamed(path)
		if err != nil {
			return err
		}
		defer opened.Close()
		if about, err := opened.Stat(); err != nil || !about.Mode().IsRegular() {
			return errors.Join(err, usagef("%s is no regular file: --lines reads a file twice", path))
		}
		files = append(files, lines.File{Name: path, ReadSeeker: opened})
	}
	v, err := lines.Check(files, lines.Options{Trust: trust, CompanyID: f.company})
	if errors.Is(err, lines.ErrCompanies) {
		return usagef("%v: name one with --company", err)
	}
	if err != nil {
		return err
	}
	if asJSON {
		_ = printable.JSON(out, v)
	} else {
		printFindings(out, v.Checked, v.Outcome, v.Code, v.Reason, v.NotProven)
	}
	return outcome(strings.Join(paths, " "), evidence.Verdict{Outcome: v.Outcome, Code: v.Code, Reason: v.Reason})
}
