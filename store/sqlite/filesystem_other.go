//go:build !linux && !darwin

package sqlite

// FileSystemOf returns the file system of a file or folder. Nothing is known of it here.
func FileSystemOf(string) (FileSystem, error) { return FileSystem{}, nil }
