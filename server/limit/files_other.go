//go:build !unix

package limit

// OpenFiles returns the maximum number of open files of this process; 0 for no bound.
func OpenFiles() int64 { return 0 }
