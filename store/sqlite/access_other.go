//go:build !unix

package sqlite

import "io/fs"

// OthersMay knows nothing of access control lists; a new file takes those of its folder.
func OthersMay(fs.FileInfo, fs.FileMode) bool { return false }

func links(fs.FileInfo) uint64 { return 1 }

func writable(string) bool { return true }
