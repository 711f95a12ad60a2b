//go:build !unix

package sqlite

import "io/fs"

// OthersMay returns false, because it does not know access control lists. A new file inherits those
// of its folder.
func OthersMay(fs.FileInfo, fs.FileMode) bool { return false }

func links(fs.FileInfo) uint64 { return 1 }

func writable(string) bool { return true }
