// Attestd gives AI agents an identity, and records what they do in tamper-evident logs.
package main

import (
	_ "embed"
	"os"

	"attestd/cmd"
)

// version is the release. `-ldflags "-X main.version=…"` sets another one.
var version = "1.0.0"

//go:embed schema.sql
var schema string

func main() { os.Exit(cmd.Run(version, schema)) }
