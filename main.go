// Attestd gives AI agents an identity, and records what they do in tamper-evident logs.
package main

import (
	_ "embed"
	"os"

	"attestd/cmd"
)

// release is the version of a release, set by make dist with `-ldflags "-X main.release=…"`. Other
// builds are named by the commit in their build info.
var release string

//go:embed schema.sql
var schema string

func main() { os.Exit(cmd.Run(release, schema)) }
