package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/lines"
	"attestd/chain/tlog"
	"attestd/crypto/keys"
	"attestd/store"
	"attestd/store/sqlite"
)

// ArchiveOptions are those of Archive.
type ArchiveOptions struct {
	Replace  bool                                  // an archive that is there
	Progress func(stage string, done, total int64) // may be nil
}

// archivedAtOnce is how many records are read in one transaction.
const archivedAtOnce = 256

// Archive writes an archive of the company's records within a frame to a new file with mode 0600.
// The file gets its name after it was synced, read back and checked. It returns the verdict, which
// fails where a record on disk is not the one that was appended, and the size of the file. Without
// Replace, an existing file is ErrRefused; with it, one that is no archive is.
func Archive(ctx context.Context, s *store.Store, f lines.Frame, out string, o ArchiveOptions) (v lines.Verdict, size int64, err error) {
	if !o.Replace { // else what is there is read before it is replaced
		if err := MayArchiveTo(ctx, s, f.CompanyID, out, false); err != nil {
			return v, 0, err
		}
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	file, err := os.CreateTemp(filepath.Dir(out), filepath.Base(out)+".partial-*")
	if err != nil {
		return v, 0, err
	}
	defer func() {
		_ = file.Close()
		if gone := os.Remove(file.Name()); err == nil && !errors.Is(gone, fs.ErrNotExist) {
			err = gone
		}
	}()
	buffered := bufio.NewWriterSize(file, 1<<20)
	err = writeArchive(ctx, s, f, buffered, o.Progress)
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		size, err = file.Seek(0, io.SeekCurrent)
	}
	if err == nil {
		v, err = readBack(ctx, file, size, f, o.Progress)
	}
	if err != nil {
		return v, 0, fmt.Errorf("archive of %s: %w", f.CompanyID, err)
	}
	if v.Outcome != evidence.Holds {
		return v, 0, nil
	}
	if err := file.Close(); err != nil {
		return v, 0, err
	}
	place := sqlite.Place
	if o.Replace {
		// it may be another file by now, or the only one that has payloads
		if err := MayArchiveTo(ctx, s, f.CompanyID, out, true); err != nil {
			return v, 0, err
		}
		place = sqlite.Replace
	}
	if err := place(file.Name(), out); errors.Is(err, fs.ErrExist) {
		return v, 0, fmt.Errorf("%w: %s exists", store.ErrRefused, out)
	} else if err != nil {
		return v, 0, err
	}
	return v, size, nil
}

// MayArchiveTo returns ErrRefused if there is a file that must stay. With replace, an archive may
// go that has nothing which the database lacks: it is read to its end before.
func MayArchiveTo(ctx context.Context, s *store.Store, companyID, out string, replace bool) error {
	info, err := os.Lstat(out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !replace:
		return fmt.Errorf("%w: %s exists", store.ErrRefused, out)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: %s is no regular file", store.ErrRefused, out)
	case info.Size() == 0:
		return nil
	}
	there, err := os.Open(out)
	if err != nil {
		return err
	}
	defer there.Close()
	buffered := bufio.NewReader(there)
	if !lines.IsArchive(buffered) {
		return fmt.Errorf("%w: %s is no archive", store.ErrRefused, out)
	}
	return mayReplace(ctx, s, companyID, out, buffered)
}

// mayReplace returns ErrRefused if an archive has payloads or records that the database of the
// company lacks, or may have some.
func mayReplace(ctx context.Context, s *store.Store, companyID, out string, archive io.Reader) error {
	company, err := s.Companies.Usage(ctx, companyID) // needs no master key
	if err != nil {
		return err
	}
	actions := store.Actions.ChainID(company.Chain)
	set, err := s.KeySet(ctx, actions)
	if err != nil {
		return err
	}
	// read before what it is compared with, so that a prune in between is seen
	v, err := lines.CheckArchive(archive, lines.Options{CompanyID: companyID,
		Trust: evidence.Trust{Fingerprint: keys.Describe(set.At(0).Key).Fingerprint}})
	switch {
	case err != nil:
		return err
	case v.Outcome != evidence.Holds:
		return fmt.Errorf("%w: %s is no archive of %s that holds, so nobody knows what it alone has (%s: %s): move it away, or give another --out",
			store.ErrRefused, out, companyID, v.Code, v.Reason)
	}
	pruned, err := s.PrunedRecords(ctx, actions)
	if err != nil {
		return err
	}
	for _, part := range v.Logs {
		head, _, err := s.Tip(ctx, store.LogName(part.Log).ChainID(company.Chain))
		switch {
		case err != nil:
			return err
		case part.Log == evidence.Actions && part.First < min(part.Next, pruned.Records):
			return fmt.Errorf("%w: %s has the payloads of the actions from %d to before %d, which were pruned, and nothing else may have them: give another --out",
				store.ErrRefused, out, part.First, min(part.Next, pruned.Records))
		case part.Next > head.Length:
			return fmt.Errorf("%w: %s has records of the log %s from %d on, which the database lacks: give another --out",
				store.ErrRefused, out, part.Log, head.Length)
		}
	}
	tree, err := tlog.FrontierAt(ctx, s.LogTree(store.Log{Name: store.Actions, Chain: actions}), v.Archive.Actions.Size)
	if err == nil && tree.Tree() != v.Archive.Actions {
		err = fmt.Errorf("%w: %s has other actions than the database: give another --out", store.ErrRefused, out)
	}
	return err
}

// writeArchive writes the lines of an archive.
func writeArchive(ctx context.Context, s *store.Store, f lines.Frame, w *bufio.Writer, progress func(string, int64, int64)) error {
	company, err := s.Companies.Usage(ctx, f.CompanyID) // needs no master key
	if err != nil {
		return err
	}
	total, done := int64(0), int64(0)
	for _, l := range f.Logs {
		total += l.Records
	}
	// An error of w stays, and is returned by its next write and Flush.
	put := func(line string) { _, _ = w.WriteString(line + "\n") }
	for _, line := range f.Head {
		put(line)
	}
	for _, l := range f.Logs {
		put(l.Opening)
		number, next, end := store.LogName(l.Log).ChainID(company.Chain), l.From, l.From+l.Records
		var line []byte
		for next < end {
			// a long read transaction would block WAL checkpoints
			to := min(next+archivedAtOnce, end)
			err := s.Records(ctx, number, next, to, func(r *chain.Record) error {
				if r.Index != next {
					return missingRecord(f.CompanyID, number, l.Log, next)
				}
				if r.IsPruned() {
					return damagedRecord(f.CompanyID, number, l.Log, next, "its payload is missing")
				}
				next++
				line = append(lines.AppendRecord(line[:0], f.CompanyID, "", l.Log, r), '\n')
				_, err := w.Write(line)
				return err
			})
			if err == nil && next < to {
				err = missingRecord(f.CompanyID, number, l.Log, next)
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
			progress("records", done+next-l.From, total)
		}
		done += l.Records
		put(l.Checkpoint)
	}
	return nil
}

func missingRecord(company string, number int64, log string, index int64) error {
	return damagedRecord(company, number, log, index, "the record is missing")
}

func damagedRecord(company string, number int64, log string, index int64, reason string) error {
	return &store.VerifyError{Chain: number, Company: company, Log: store.LogName(log), Index: index, Reason: reason}
}

// readBack checks what was written.
func readBack(ctx context.Context, file *os.File, size int64, f lines.Frame, progress func(string, int64, int64)) (v lines.Verdict, err error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return v, err
	}
	read := int64(0)
	src := readFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n, err := file.Read(p)
		read += int64(n)
		progress("check", read, size)
		return n, err
	})
	return lines.CheckArchive(src, lines.Options{Trust: evidence.Trust{Fingerprint: f.Signer}, CompanyID: f.CompanyID})
}

type readFunc func(p []byte) (int, error)

func (r readFunc) Read(p []byte) (int, error) { return r(p) }
