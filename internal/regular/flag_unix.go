//go:build unix

package regular

import "syscall"

// NoWait is the flag of an open that waits for nobody.
const NoWait = syscall.O_NONBLOCK
