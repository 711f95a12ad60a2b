// Attestd-agent is the part of attestd that runs on the machine of an agent. It has no server.
package main

import (
	"os"

	"attestd/cmd/agent"
)

// release is the version of a release, as in attestd.
var release string

func main() { os.Exit(agent.Run(release)) }
