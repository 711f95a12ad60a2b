//go:build !linux

package cmd

import "runtime"

// lowerPriority takes at most half of the cores.
func lowerPriority(int) { runtime.GOMAXPROCS(max(1, runtime.NumCPU()/2)) }
