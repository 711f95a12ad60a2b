//go:build !linux

package cmd

import "runtime"

// lowerPriority takes at most half of the cores.
func lowerPriority() { runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/2)) }
