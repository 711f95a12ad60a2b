//go:build !unix

package sqlite

import "io/fs"

// PermitsOthers returns false, because it does not know access control lists. A new file inherits
// those of its folder.
func PermitsOthers(fs.FileInfo, fs.FileMode) bool { return false }

func links(fs.FileInfo) uint64 { return 1 }

// Owner does not know.
func Owner(fs.FileInfo) (uid uint32, known bool) { return 0, false }

func writable(string) bool { return true }
