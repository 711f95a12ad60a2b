//go:build race

package testenv

// Raced says whether the race detector is on.
const Raced = true
