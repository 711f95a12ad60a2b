//go:build !linux

package main

import (
	"context"

	"attestd/internal/harness"
)

// fullDisk needs a small file system, which it can make on Linux alone.
func fullDisk(context.Context, *harness.Run) error { return nil }

// readErrors needs a kernel that refuses reads, which Linux can be told to do.
func readErrors(context.Context, *harness.Run) error { return nil }
