package store

import (
	"maps"
	"os"
	"sync"
	"time"

	"attestd/store/sqlite"
)

// Status is what a server tells its operator about the store. Reading it uses no database.
type Status struct {
	Queue    int    // calls that wait for a transaction
	HeadFile string // see Rollback.HeadFile
	// the wall clock leapt ahead while this process was running, and is not trusted yet
	ClockLeapt bool
	Disk       DiskStatus
	Duties     map[string]DutyStatus // by name
}

// DiskStatus is about the files of a database, in bytes. All are zero on PostgreSQL.
type DiskStatus struct {
	Database, Log, HeadFile int64
	Free                    int64 // what the file system has left
	FreeKnown               bool  // the system has said Free
}

// DutyStatus says of a duty whether this server holds it, and when the database last said who does.
// On a file, the only server holds all without asking: then Answered is zero.
type DutyStatus struct {
	Held     bool
	Answered time.Time
}

// IsUnknown reports whether the database has not said for long enough who has the duty that another
// server may have taken it.
func (d DutyStatus) IsUnknown(now time.Time) bool {
	return !d.Answered.IsZero() && now.Sub(d.Answered) > 2*dutyTime
}

// Status may be called at any time.
func (s *Store) Status() Status {
	status := Status{HeadFile: s.Rollback.HeadFile(), Disk: s.disk(), Duties: s.duties.all()}
	if s.writer != nil {
		status.Queue, status.ClockLeapt = s.log.Waiting(), s.writer.keyClock.hasLeapt()
	}
	return status
}

func (s *Store) disk() (d DiskStatus) {
	if s.isPostgres {
		return d
	}
	d.Database, d.Log = fileSize(s.path), fileSize(s.path+"-wal")
	if s.heads.hasFile() {
		d.HeadFile = fileSize(s.heads.path)
	}
	d.Free, d.FreeKnown = sqlite.FreeSpace(s.path)
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

// duties are those that this server asks for.
type duties struct {
	mu     sync.Mutex
	byName map[string]DutyStatus
}

func (d *duties) note(name string, is DutyStatus) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byName == nil {
		d.byName = map[string]DutyStatus{}
	}
	d.byName[name] = is
}

// lose notes that this server does not hold a duty any more, which the database has not said.
func (d *duties) lose(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	is := d.byName[name]
	is.Held = false
	d.byName[name] = is
}

func (d *duties) all() map[string]DutyStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.byName)
}
