//go:build !linux && !darwin

package sqlite

// FreeRoom returns the bytes that this user may still write to the file system of a folder, and its
// size. isKnown is false on systems that do not say.
func FreeRoom(string) (free, size int64, isKnown bool) { return 0, 0, false }
