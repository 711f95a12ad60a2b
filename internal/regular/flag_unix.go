//go:build unix

package regular

import "syscall"

// NoWait is the flag of an open that does not wait.
const NoWait = syscall.O_NONBLOCK
