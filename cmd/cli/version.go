package cli

import (
	"errors"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"attestd/internal/printable"
)

// unreleased is the version of a build that has neither a release's version nor a commit.
const unreleased = "devel"

// VersionOf returns the version to print: that of the release, or else the one that the Go command
// has stamped, which names the commit.
func VersionOf(release string, info *debug.BuildInfo) string {
	if release == "" && info != nil && info.Main.Version != "(devel)" {
		release = info.Main.Version
	}
	if release == "" {
		return unreleased
	}
	return strings.TrimPrefix(release, "v")
}

// printBuild prints what the program was built from, a line each: commit, compiler and system.
func printBuild(w io.Writer, info *debug.BuildInfo) {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	switch {
	case commit == "":
		commit = "not recorded"
	case settings["vcs.modified"] == "true":
		commit += ", with changes"
	}
	when := settings["vcs.time"]
	if when == "" {
		when = "not recorded"
	}
	printable.Fprintf(w, "commit    %s\ncommitted %s\ncompiler  %s\nsystem    %s/%s\n", commit, when, info.GoVersion,
		settings["GOOS"], settings["GOARCH"])
}

// VersionCommand returns the command that prints the version of a program.
func VersionCommand(version string) *cobra.Command {
	var build bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			printVersion(cmd, version)
			if !build {
				return nil
			}
			info, ok := debug.ReadBuildInfo()
			if !ok {
				return errors.New("this program was built without build information")
			}
			printBuild(cmd.OutOrStdout(), info)
			return nil
		},
	}
	cmd.Flags().BoolVar(&build, "build", false, "also print the commit, the compiler and the system of the build")
	return cmd
}

func printVersion(cmd *cobra.Command, version string) {
	printable.Fprintf(cmd.OutOrStdout(), "%s %s\n", cmd.Root().Name(), version)
}
