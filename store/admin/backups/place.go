// Package backups puts verified backups of a database into a folder or a bucket of S3, encrypted if
// there are recipients, lists and verifies them there, removes old ones, and fetches one for a
// restore.
//
// A backup is a copy of the database under a name of its own (Name), and a manifest next to it,
// which is written last. So it counts as done when it was read back from its place and verified. A
// backup without a manifest is unfinished. Only unfinished and old backups of the same database are
// removed, found by their names and manifests, and only after a newer backup is done.
package backups

import (
	"context"
	"io"
	"time"
)

// Place is where backups are. Names in it have no separators.
type Place interface {
	// String returns the address of the place as users type it.
	String() string
	// Address returns that of a file in it.
	Address(name string) string
	// Check returns why nothing can be put here, as far as that is known without a write.
	Check(ctx context.Context) error
	// List returns all names in the place.
	List(ctx context.Context) ([]string, error)
	// Write stores a file under a new name, durably. size says about how large it is.
	Write(ctx context.Context, name string, r io.Reader, size int64) (Stored, error)
	// Finish makes a file of Write one that others see, if it is not yet.
	Finish(ctx context.Context, name string) error
	// Read reads a file as it is in the place; "" is the newest version. It returns fs.ErrNotExist.
	Read(ctx context.Context, name, version string) (io.ReadCloser, error)
	// Size returns the size of a file as the place says it, or fs.ErrNotExist.
	Size(ctx context.Context, name, version string) (int64, error)
	// Remove removes a file. It returns nil if there is none.
	Remove(ctx context.Context, name, version string) error
	// Sweep removes what killed processes have left of files that they were writing. isOurs selects
	// them by name.
	Sweep(ctx context.Context, now time.Time, isOurs func(name string) bool) error
	// Room returns the folder of this machine that a write fills, or "".
	Room() string
}

// Stored is what a place says of a file that it has stored.
type Stored struct {
	Version     string    // in a bucket with versions
	Lock        string    // object lock: governance, compliance, or "" for none
	RetainUntil time.Time // its end
}

// abandoned is the age from which an unfinished backup counts as left behind where no lock tells.
const abandoned = 24 * time.Hour
