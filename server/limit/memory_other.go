//go:build !linux

package limit

// Memory does not know how much memory the machine has.
func Memory() (size int64, ok bool) { return 0, false }
