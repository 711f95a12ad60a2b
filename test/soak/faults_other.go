//go:build !linux

package main

import (
	"context"

	"attestd/test/internal/harness"
)

// fullDisk needs a small file system, which it can make on Linux alone.
func fullDisk(context.Context, *harness.Run) error { return nil }
