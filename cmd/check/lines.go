package check

import (
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"attestd/chain/evidence"
	"attestd/chain/filekind"
	"attestd/chain/lines"
	"attestd/cmd/cli"
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
		// before it is opened, which would wait for who writes into a pipe
		if about, err := os.Stat(path); err == nil && !about.Mode().IsRegular() {
			return cli.Usagef("%s is no regular file: --lines reads a file twice", path)
		}
		opened, err := cli.OpenNamed(path)
		if err != nil {
			return err
		}
		defer opened.Close()
		if err := MustBe(path, evidence.Reader(opened), filekind.Lines); err != nil {
			return err
		}
		if _, err := opened.Seek(0, io.SeekStart); err != nil {
			return err
		}
		files = append(files, lines.File{Name: path, ReadSeeker: opened})
	}
	v, err := lines.Check(files, lines.Options{Trust: trust, CompanyID: f.company})
	if errors.Is(err, lines.ErrCompanies) {
		return cli.Usagef("%v: name one with --company", err)
	}
	if err != nil {
		return err
	}
	return printLines(out, strings.Join(paths, " "), v, asJSON)
}
