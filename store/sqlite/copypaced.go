package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	sqlite3 "modernc.org/sqlite"
)

// copyPages is the number of pages of one step: 1 MiB at SQLite's default page size.
const copyPages = 256

// CopyPaced copies the database of a connection, as it is at one moment, to the empty file at path,
// which MUST be absolute. It calls paced after each step with the bytes copied so far and the
// total; an error of paced ends the copy and is returned unchanged.
//
// A read transaction holds the moment, so that a writer does not make the copy begin again. The
// write-ahead log cannot become shorter meanwhile. The copy has the free pages of the source.
func CopyPaced(ctx context.Context, c *sql.Conn, path string, paced func(done, total int64) error) (err error) {
	if _, err := c.ExecContext(ctx, "BEGIN DEFERRED"); err != nil {
		return err
	}
	defer func() {
		_, ended := c.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		err = errors.Join(err, ended)
	}()
	var pageSize int64
	if err := c.QueryRowContext(ctx, "PRAGMA page_size").Scan(&pageSize); err != nil {
		return err
	}
	if err := c.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(new(int64)); err != nil {
		return err // this read begins the transaction
	}
	if err := c.Raw(func(driver any) (err error) {
		source, ok := driver.(interface {
			NewBackup(destination string) (*sqlite3.Backup, error)
		})
		if !ok {
			return fmt.Errorf("the driver %T has no backup", driver)
		}
		// The copy is useless after a crash, so it has no journal and is synced by its reader.
		b, err := source.NewBackup(Address(path, ModeEdit+"&_pragma=journal_mode(off)&_pragma=synchronous(off)"))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.Finish()) }()
		for more := true; more; {
			if err := ctx.Err(); err != nil {
				return err
			}
			if more, err = b.Step(copyPages); err != nil {
				return err
			}
			total := int64(b.PageCount()) * pageSize
			if err := paced(total-int64(b.Remaining())*pageSize, total); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return leaveWAL(path)
}

// leaveWAL makes a database without a write-ahead log one with a rollback journal, which is read
// without further files. These two bytes of the header are all that differs
// (https://www.sqlite.org/fileformat.html, 1.3.3), and SQLite would sync the whole file for them.
func leaveWAL(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte{1, 1}, 18)
	return errors.Join(err, f.Close())
}
