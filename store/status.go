package store

import (
	"os"

	"attestd/store/db"
	"attestd/store/sqlite"
)

// Status is what a server tells its operator about the store. Reading it uses no database.
type Status struct {
	Queue    int    // calls that wait for a transaction
	HeadFile string // see Rollback.HeadFile
	// the wall clock leapt ahead while this process was running, and is not trusted yet
	ClockLeapt bool
	Disk       DiskStatus
	Duties     map[string]db.DutyStatus // by name
}

// DiskStatus is about the files of a database, in bytes. All are zero on PostgreSQL.
type DiskStatus struct {
	Database, Log, HeadFile int64
	Free                    int64 // what the file system has left
	FreeKnown               bool  // the system has reported Free
}

// Status may be called at any time.
func (s *Store) Status() Status {
	status := Status{HeadFile: s.Rollback.HeadFile(), Disk: disk(s), Duties: s.Duties()}
	status.Queue, status.ClockLeapt = s.Waiting()
	return status
}

func disk(s *Store) (d DiskStatus) {
	if s.MultiWriter() {
		return d
	}
	d.Database, d.Log = fileSize(s.Path()), fileSize(s.Path()+"-wal")
	if s.Rollback.head.heads.hasFile() {
		d.HeadFile = fileSize(s.Rollback.head.heads.path)
	}
	d.Free, d.FreeKnown = sqlite.FreeSpace(s.Path())
	return d
}

// fileSize returns 0 for a file that is not there.
func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
