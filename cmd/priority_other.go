//go:build !linux

package cmd

import "runtime"

// lowerPriority takes at most half of the cores.
func lowerPriority(int) { runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), max(1, runtime.NumCPU()/2))) }
