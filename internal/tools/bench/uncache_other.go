//go:build !linux

package main

// uncache is for Linux alone.
func uncache(string) bool { return false }
