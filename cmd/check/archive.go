package check

import (
	"io"
	"os"

	"attestd/chain/evidence"
	"attestd/chain/lines"
	"attestd/cmd/cli"
	"attestd/internal/printable"
)

// checkArchive checks an archive, which src reads from f.
func checkArchive(out io.Writer, f *watchedReader, src io.Reader, trust evidence.Trust, asJSON bool) error {
	about, err := f.Stat()
	if err != nil {
		return err
	}
	report, finish := cli.Progress()
	if report != nil && about.Mode().IsRegular() { // a pipe has no length
		f.report = func(done int64) { report("check", done, about.Size()) }
	}
	v, err := lines.CheckArchive(src, lines.Options{Trust: trust})
	finish()
	if err != nil {
		return err
	}
	return printLines(out, f.Name(), v, asJSON)
}

// printLines prints the verdict on lines, and returns the error for it.
func printLines(out io.Writer, path string, v lines.Verdict, asJSON bool) error {
	if asJSON {
		_ = printable.JSON(out, v) // a closed pipe shows in the exit status of whoever closed it
	} else {
		printFindings(out, evidence.Words(v.Outcome, v.Code, v.Reason), v.Summary, v.Checked, v.NotProven)
	}
	return Outcome(path, evidence.Verdict{Outcome: v.Outcome, Code: v.Code, Reason: v.Reason})
}

// watchedReader reports how far a file was read.
type watchedReader struct {
	*os.File
	done   int64
	report func(done int64) // may be nil
}

func (r *watchedReader) Read(p []byte) (int, error) {
	n, err := r.File.Read(p)
	if r.done += int64(n); r.report != nil {
		r.report(r.done)
	}
	return n, err
}
