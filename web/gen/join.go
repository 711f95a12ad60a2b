package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
)

// join returns the files that some patterns, separated by commas, match, one after the other: those
// of a pattern in the order of their names.
func join(patterns string) ([]byte, error) {
	var parts [][]byte
	for _, pattern := range strings.Split(patterns, ",") {
		names, err := filepath.Glob(pattern) // sorted
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			part, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			parts = append(parts, part)
		}
	}
	return bytes.Join(parts, []byte("\n")), nil
}
