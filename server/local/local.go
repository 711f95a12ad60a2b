// Package local is how commands reach the server that has a database file open: by HTTP/1.1 over a
// Unix socket next to the file, which only the owner of the server's process, and root, can use.
//
// The socket has the name of the database with .sock behind it and the mode 0600. Its folder is
// that of the database, which a server refuses where others may write it. On Linux both ends also
// ask the kernel whose process the other one is. Nothing of this is served on another listener.
//
// Every operation is a POST of one JSON object, read strictly, to a path of its own. The answer is
// one JSON object, of the list one for each company and line. The archive of records whose payloads
// go is a body by itself, which the server reads and checks. An error has a status of 400 or more
// and the members error and kind, the kind being the sentinel of package store that it wraps.
// The kind busy means that too many connections are open, and that nothing of the request was read.
package local

import (
	"errors"
	"fmt"
	"path/filepath"

	"attestd/store"
	"attestd/store/db"
)

// suffix is appended to the path of a database.
const suffix = ".sock"

// maxPath is the longest path that all systems accept for a socket.
const maxPath = 103

var errPath = errors.New("the path of the socket is too long")

// ErrBusy means that nothing was carried out, because too many connections to the socket are open.
var ErrBusy = fmt.Errorf("%w: the server is busy with other local commands, and nothing was carried out; try again", store.ErrUnavailable)

// place returns the path of the socket of a database file.
func place(database string) (string, error) {
	path, err := db.Absolute(database)
	return path + suffix, err
}

// reachable calls fn with a path of a socket that the system accepts.
func reachable(path string, fn func(path string) error) error {
	if len(path) <= maxPath {
		return fn(path)
	}
	return throughFolder(filepath.Dir(path), filepath.Base(path), fn)
}

// kinds are the sentinels that pass through the socket.
var kinds = map[string]error{
	"notFound": store.ErrNotFound, "refused": store.ErrRefused, "suspended": store.ErrSuspended, "tooMany": store.ErrTooMany,
	"unknown": store.ErrUnknown, "rolledBack": store.ErrRolledBack, "tablesChanged": store.ErrTablesChanged, "quota": store.ErrQuota,
	"unavailable": store.ErrUnavailable, "masterKey": store.ErrMasterKey,
	"busy": ErrBusy,
}

// failure is the body of an error.
type failure struct {
	Error string `json:"error"`
	Kind  string `json:"kind,omitempty"`
}

// Error is an error of the server at the other end.
type Error struct {
	Message string
	kind    error // may be nil
}

func (e *Error) Error() string { return e.Message }
func (e *Error) Unwrap() error { return e.kind }
