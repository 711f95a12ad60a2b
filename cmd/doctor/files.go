package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dustin/go-humanize"

	"attestd/internal/printable"
	"attestd/store"
	"attestd/store/db"
	"attestd/store/sqlite"
)

const (
	// Of a longer write-ahead log the server holds no copy. Its usual size is 4 MiB.
	longLog = 64 << 20

	aboutPostgres = "PostgreSQL has no such file here"
	asServer      = "run the doctor as the user of the server"
)

func bytes(n int64) string { return humanize.IBytes(uint64(max(0, n))) }

func (x *examination) database(ctx context.Context) *finding {
	if err := x.storeErr; err != nil {
		remedy := "see docs/operate/integrity.md, \"Verify a database\""
		switch {
		case errors.Is(err, store.ErrNotFound):
			remedy = "name the database with --db, or restore a backup"
		case errors.Is(err, store.ErrForeign):
			remedy = "name the database with --db"
		case errors.Is(err, store.ErrNewer):
			remedy = "use the program that wrote it, or a newer one"
		case errors.Is(err, fs.ErrPermission):
			remedy = asServer
		case errors.Is(err, store.ErrUnavailable):
			remedy = "look at the disk, or the connection to the database"
		case errors.Is(err, store.ErrCorrupt):
			remedy = "stop the server and restore a backup"
		}
		return failed(err.Error(), remedy)
	}
	f := ok(db.Name(x.DB))
	if info, err := os.Stat(x.path); err == nil && x.path != "" {
		f.note(bytes(info.Size()))
	}
	if !x.store.UpToDate() {
		f.add(Warn, "the database has the schema of an older attestd", "start the server of this version once, after a backup")
	}
	risks, err := x.store.Risks(ctx)
	if err != nil {
		return failed(err.Error(), "look at the connection to the database")
	}
	for _, risk := range risks {
		f.add(Warn, risk, "see docs/postgres.md")
	}
	return f
}

// missing is the finding of a check of a file that is not there, or nil.
func (x *examination) missing() *finding {
	if _, err := os.Lstat(x.path); err != nil {
		return skipped("there is no such file, or it cannot be looked at")
	}
	return nil
}

func (x *examination) links(context.Context) *finding {
	if x.path == "" {
		return skipped(aboutPostgres)
	}
	if f := x.missing(); f != nil {
		return f
	}
	if err := sqlite.CheckLinks(x.path); err != nil {
		return failed(err.Error(), "leave one plain file; see docs/operate/settings.md, \"Know the files\"")
	}
	if typed, err := filepath.Abs(x.DB); err == nil && typed != x.path {
		return ok("plain files with one name each; " + x.DB + " leads to " + x.path)
	}
	return ok("plain files with one name each")
}

// A companion is a file that a server creates next to a database or its head file.
type companion struct {
	path string
	mask fs.FileMode // of permissions that no other user may have; 0 where CheckRights checks that
}

func (x *examination) companions() []companion {
	list := []companion{{x.path + ".lock", 0o022}, {x.path + ".sock", 0o066}, {x.path + "-wal", 0}, {x.path + "-shm", 0}}
	if x.Heads != "" {
		verified := store.VerifiedBeside(x.Heads)
		list = append(list, companion{x.Heads, 0o022}, companion{verified, 0o022}, companion{verified + ".key", 0o066})
	}
	return list
}

func (x *examination) permissions(context.Context) *finding {
	if x.path == "" {
		return skipped("what the role of the server may do is up to the database; see docs/postgres.md")
	}
	if f := x.missing(); f != nil {
		return f
	}
	f := ok("no other user can write the files or read the keys")
	warning, err := sqlite.CheckRights(x.path)
	switch {
	case err != nil:
		f.add(Fail, err.Error(), "chmod as it says; then only the owner can change the database")
	case warning != "":
		f.add(Fail, warning, "chmod as it says, and rotate what may have been read")
	}
	database, err := os.Stat(x.path)
	if err != nil {
		return f.add(Fail, err.Error(), asServer)
	}
	owner, known := sqlite.Owner(database)
	for _, c := range x.companions() {
		info, err := os.Lstat(c.path)
		if err != nil {
			continue
		}
		if sqlite.PermitsOthers(info, c.mask) {
			f.add(Fail, "others may use "+c.path, "chmod 600 "+printable.ShellWord(c.path))
		}
		if uid, _ := sqlite.Owner(info); known && uid != owner {
			state := Fail
			if x.serverRuns() {
				state = Warn // its own user can
			}
			f.add(state, fmt.Sprintf("%s belongs to user %d, and the database to user %d, whose server could not use it", c.path, uid, owner),
				fmt.Sprintf("chown %d %s", owner, printable.ShellWord(c.path)))
		}
	}
	for _, path := range sqlite.Abandoned(filepath.Dir(x.path)) {
		f.add(Warn, "a command that was killed has left a copy of a database with its keys: "+path,
			"rm "+printable.ShellWord(path)+", or let the next start of the server remove it")
	}
	return f
}

func (x *examination) fileSystem(context.Context) *finding {
	if x.path == "" {
		return skipped(aboutPostgres)
	}
	if f := x.missing(); f != nil {
		return f
	}
	const remedy = "move the database to a disk of this machine, with attestd backup and restore, or to PostgreSQL"
	switch warning, err := sqlite.CheckFileSystem(x.path, x.AllowNetworkFS); {
	case err != nil:
		return failed(err.Error(), remedy)
	case warning != "":
		return ok("the database can be opened").add(Warn, warning, remedy)
	}
	return ok("no network file system, FUSE or overlay is under the database")
}

func (x *examination) space(context.Context) *finding {
	if x.path == "" {
		return skipped(aboutPostgres)
	}
	free, known := sqlite.FreeSpace(x.path)
	if !known {
		return skipped("the system does not say")
	}
	f := ok(bytes(free) + " free on the disk of the database")
	var size int64
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(x.path + suffix); err == nil {
			size += info.Size()
		}
	}
	const remedy = "make room, or add a disk"
	switch {
	case free < x.Config.DiskFloor:
		f.add(Fail, fmt.Sprintf("%s free on the disk of the database, less than --disk-floor (%s)", bytes(free), bytes(x.Config.DiskFloor)), remedy)
	case free < size:
		f.add(Warn, fmt.Sprintf("%s free on the disk of the database, too little for a copy of it (%s): backups and restores fail",
			bytes(free), bytes(size)), remedy)
	}
	if x.Heads != "" {
		if free, known := sqlite.FreeSpace(x.Heads); known && free < 1<<20 {
			f.add(Fail, bytes(free)+" free on the disk of the head file", remedy)
		}
	}
	return f
}

func (x *examination) log(context.Context) *finding {
	if x.path == "" {
		return skipped(aboutPostgres)
	}
	if f := x.missing(); f != nil {
		return f
	}
	f := ok()
	if _, err := os.Lstat(x.path + "-journal"); err == nil {
		f.add(Warn, x.path+"-journal is there: a command that changes the database runs, or was killed",
			"if none runs, start the server, which undoes what was begun")
	}
	info, err := x.wal, x.walErr
	switch {
	case errors.Is(err, fs.ErrNotExist) && x.serverRuns():
		return f.add(Fail, "the write-ahead log was deleted under the server", "restart the server before anything else; see docs/operate/settings.md, \"Know the files\"")
	case errors.Is(err, fs.ErrNotExist):
		f.note("no write-ahead log: the database is at rest")
	case err != nil:
		return f.add(Fail, err.Error(), asServer)
	case info.Size() > longLog:
		f.add(Warn, fmt.Sprintf("the write-ahead log has %s: a long read holds up its checkpoints, and of more than %s no copy is held",
			bytes(info.Size()), bytes(longLog)), "end what reads the database for so long; without a server, start one and stop it")
	case x.serverRuns() || info.Size() == 0:
		f.note("write-ahead log: " + bytes(info.Size()))
	default:
		f.note("write-ahead log: " + bytes(info.Size()) + ", of a server that was killed; the next start takes it in")
	}
	return f
}

func (x *examination) locks(context.Context) *finding {
	if x.path == "" {
		return skipped("any number of servers may use a PostgreSQL database")
	}
	if sqlite.CheckLinks(x.path) != nil {
		return skipped("the file is not a plain one")
	}
	locked, known, err := sqlite.IsLocked(x.path)
	switch {
	case err != nil:
		return skipped("the database cannot be read")
	case !known:
		return skipped("on this system no lock of the file says who has it open")
	case x.serverRuns() && !locked:
		return failed("the server that answers does not have this file open: the file was moved or replaced under it",
			"restart the server before anything else; see docs/operate/settings.md, \"Know the files\"")
	case !x.serverRuns() && locked:
		return warned("a process has locked the database, and no server answers at its socket",
			"wait for the command that runs; if it is a server, its log says at the start why it has no socket")
	case locked:
		return ok("locked by the server")
	}
	return ok("no process has locked the database")
}
