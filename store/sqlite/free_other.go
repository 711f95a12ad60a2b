//go:build !linux && !darwin && !windows

package sqlite

// FreeSpace returns the bytes that the file system of a database has left for this process. ok is
// false where the system does not say.
func FreeSpace(string) (bytes int64, ok bool) { return 0, false }
