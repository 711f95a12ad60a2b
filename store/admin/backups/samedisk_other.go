//go:build !unix

package backups

import "path/filepath"

// sameDisk reports whether two folders are on one file system.
func sameDisk(a, b string) bool { return filepath.VolumeName(a) == filepath.VolumeName(b) }
