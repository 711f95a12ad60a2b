// Attestd gives AI agents an identity and their actions a proof: one binary, one SQLite file.
package main

import (
	_ "embed"
	"os"

	"attestd/cmd"
)

// version is the release; `-ldflags "-X main.version=…"` names another build.
var version = "1.0.0"

//go:embed schema.sql
var schema string

func main() { os.Exit(cmd.Run(version, schema)) }
