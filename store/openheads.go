package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"attestd/internal/printable"
	"attestd/store/db"
	"attestd/store/headfile"
	"attestd/store/sqlite"
)

// Rollback detects a database that is older than its head file or its checkpoints, and accepts one.
type Rollback struct {
	db          *base
	head        *headState
	companies   companyCache
	view        *View
	checkpoints Checkpoints
	cosigner    Cosigner
}

// headState is what is known of the database elsewhere, from its start on.
type headState struct {
	heads  *heads   // nil for a file without one, and while the database is behind it
	behind []Behind // in what it is
}

// HeadsBeside returns the default path of the head file of the database at path, which is next to
// it.
func HeadsBeside(path string) string {
	if real, err := db.Absolute(path); err == nil {
		path = real
	}
	return path + ".heads"
}

// openKnown compares the database with what is known of it elsewhere: its head file, if it has one,
// and its stored checkpoints.
func (s Rollback) openKnown(ctx context.Context, heads string) error {
	switch {
	case heads != "":
		if err := s.openHeads(ctx, heads, s.db.isNew); err != nil {
			return err
		}
	case s.db.MultiWriter():
		s.head.heads = newHeads(s, "", headfile.ID{}, nil)
	}
	return s.checkpoints.openKept(ctx)
}

// openHeads compares the database with its head file. If the database is behind, it is not written
// until an operator has accepted that. Otherwise the head file is updated, or created if it does
// not exist.
func (s Rollback) openHeads(ctx context.Context, path string, isNew bool) error {
	id, err := s.db.DatabaseID(ctx)
	if err != nil {
		return err
	}
	file, err := openHeadFile(path, id)
	isThere := !errors.Is(err, fs.ErrNotExist)
	if err != nil && isThere {
		return fmt.Errorf("head file: %w", err)
	}
	var known []headfile.Head
	var logs map[int64]*loggedHead
	var both errgroup.Group // either takes a quarter of the start with 10,000 companies
	both.Go(func() (err error) {
		logs, err = s.loggedHeads(ctx)
		return err
	})
	both.Go(func() (err error) {
		known, err = headsIn(file)
		return err
	})
	if err = both.Wait(); err == nil {
		s.head.behind, err = s.compareWith(ctx, logs, known)
	}
	if err == nil && len(s.head.behind) == 0 && !isThere {
		s.newHeadFile(ctx, path, id, isNew)
		return nil
	}
	switch {
	case err != nil:
	case len(s.head.behind) > 0:
		s.db.StopWrites(&RolledBackError{s.head.behind})
		if file != nil {
			err = errors.Join(s.cosigner.open(ctx, file), file.Close())
		}
		return err
	default:
		if err = s.cosigner.open(ctx, file); err == nil {
			s.head.heads = newHeads(s, path, id, s.newestForm(path, id, file))
			return s.catchUp(ctx, logs, known)
		}
	}
	if file != nil {
		err = errors.Join(err, file.Close())
	}
	return fmt.Errorf("head file: %w", err)
}

// newestForm converts a head file to the newest format. If that fails, the file stays as it is, and
// may have no place for the log of the companies or for cosigned trees.
func (s Rollback) newestForm(path string, id headfile.ID, file *headfile.File) *headfile.File {
	if file.IsNewest() {
		return file
	}
	made, err := copyHeads(path, id, file)
	if err != nil {
		s.db.notices = append(s.db.notices, fmt.Sprintf("the head file %s cannot be brought to its newest form: %v; it stays behind while it is not", path, err))
		return file
	}
	if err := errors.Join(sqlite.SyncDir(path), file.Close()); err != nil {
		s.db.notices = append(s.db.notices, fmt.Sprintf("the head file %s: %v", path, err))
	}
	return made
}

// copyHeads makes a head file at path that has all that file has.
func copyHeads(path string, id headfile.ID, file *headfile.File) (made *headfile.File, err error) {
	var heads []headfile.Head
	var cosigned []headfile.Cosigned
	err = file.Each(func(h *headfile.Head) error {
		heads = append(heads, *h)
		return nil
	})
	if err == nil {
		err = file.EachCosigned(func(c headfile.Cosigned) error {
			cosigned = append(cosigned, c)
			return nil
		})
	}
	if err == nil {
		made, err = headfile.Create(path, id, heads, cosigned)
	}
	return made, err
}

// Check compares a database with its head file without changing either. It returns a
// *RolledBackError if the database is behind, fs.ErrNotExist, or ErrRefused.
func (s Rollback) Check(ctx context.Context, heads string) error {
	path, err := db.Absolute(heads)
	if err != nil {
		return err
	}
	id, err := s.db.DatabaseID(ctx)
	if err != nil {
		return err
	}
	file, err := openHeadFile(path, id)
	if err != nil {
		return fmt.Errorf("head file: %w", err)
	}
	defer file.Close()
	// The file is read before the database: a server that runs meanwhile may extend both.
	known, err := headsIn(file)
	if err == nil {
		err = s.CheckHeads(ctx, known)
	}
	var behind []Behind
	if err == nil && s.db.Schema() >= db.WitnessSchema {
		behind, err = s.cosigner.compare(ctx, file)
	}
	if err == nil && len(behind) > 0 {
		err = &CosignerError{behind}
	}
	return err
}

// newHeadFile creates a missing head file. A failure does not prevent writes to the database.
func (s Rollback) newHeadFile(ctx context.Context, path string, id headfile.ID, isNew bool) {
	file, err := s.createHeads(ctx, path, id)
	switch {
	case err != nil:
		s.db.notices = append(s.db.notices, fmt.Sprintf("the head file %s cannot be made: %v; an older database in the place of this one would not be noticed", path, err))
	case !isNew:
		s.db.notices = append(s.db.notices, "made the head file "+path+
			", for there was none: nothing says whether this database is older than it was")
		if err := LeaveUnrecorded(s.db.WriterConn(), unrecordedHeadFile(time.Now())); err != nil {
			s.db.notices = append(s.db.notices, fmt.Sprintf("the control logs will not say that the head file was made: %v",
				err))
		}
	}
	s.head.heads = newHeads(s, path, id, file)
}

// catchUp updates the head file, which has what is known, to the state of the database.
func (s Rollback) catchUp(ctx context.Context, logs map[int64]*loggedHead, known []headfile.Head) (err error) {
	for _, h := range known {
		if l := logs[h.Chain]; l != nil && l.Head == h {
			delete(logs, h.Chain)
		}
	}
	for _, l := range logs {
		if err == nil {
			err = s.head.heads.file.Update(l.Chain, func(known *headfile.Head) {
				published := known.Checkpoint
				if *known = l.Head; published.Size > l.Checkpoint.Size {
					known.Checkpoint = published
				}
			})
		}
		if err != nil {
			p := &pin{base: l.Tree, from: l.Tree, to: l.Tree, checkpoint: l.Checkpoint}
			s.head.heads.pins[l.Chain], s.head.heads.due[l.Chain] = p, p
		}
	}
	cosigned, _, failed := s.cosigner.trees(ctx)
	if failed != nil {
		return failed
	}
	for _, c := range cosigned {
		if err == nil && s.cosigner.cosigned.behind == nil && s.head.heads.file.HasCosigned() {
			err = s.head.heads.file.Cosigned(c)
		}
	}
	if err == nil {
		err = s.head.heads.file.Sync()
	}
	if err != nil {
		s.db.notices = append(s.db.notices, fmt.Sprintf("the head file %s cannot be written: %v; it stays behind until it can", s.head.heads.path, err))
		s.head.heads.failing.Store(true)
	}
	return nil
}

// createHeads creates a head file with the current state of the database.
func (s Rollback) createHeads(ctx context.Context, path string, id headfile.ID) (*headfile.File, error) {
	logs, err := s.loggedHeads(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]headfile.Head, 0, len(logs))
	for _, l := range logs {
		list = append(list, l.Head)
	}
	cosigned, _, err := s.cosigner.trees(ctx)
	if err != nil {
		return nil, err
	}
	file, err := headfile.Create(path, id, list, cosigned)
	if err == nil {
		err = sqlite.SyncDir(path)
	}
	return file, err
}

// openHeadFile opens the head file of a database. It returns fs.ErrNotExist, or ErrRefused if the
// file belongs to another database or if other users may write it.
func openHeadFile(path string, id headfile.ID) (*headfile.File, error) {
	for _, name := range []string{filepath.Dir(path), path} {
		info, err := os.Lstat(name)
		if err != nil {
			return nil, err
		}
		if sqlite.PermitsOthers(info, 0o022) {
			return nil, fmt.Errorf("%w: others may write %s, and so the head file: run chmod go-w %s", db.ErrRefused, name,
				printable.ShellWord(name))
		}
	}
	file, err := headfile.Open(path, id)
	if errors.Is(err, headfile.ErrForeign) {
		err = fmt.Errorf("%w: %w; name its own with --heads, or move this one away", db.ErrRefused, err)
	}
	return file, err
}
