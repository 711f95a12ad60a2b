//go:build !unix

package regular

// NoWait is no flag where pipes have no place among the files.
const NoWait = 0
