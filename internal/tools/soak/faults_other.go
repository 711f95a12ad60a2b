//go:build !linux

package main

import (
	"context"

	"attestd/internal/harness"
)

// fullDisk needs a small file system, which it can create only on Linux.
func fullDisk(context.Context, *harness.Run) error { return nil }

// readErrors needs a kernel that can be told to fail reads, which is Linux.
func readErrors(context.Context, *harness.Run) error { return nil }
