// Command manuals writes the man page of each command of attestd below FOLDER/man, and completions
// of four shells below FOLDER/completions. Pages have the time $SOURCE_DATE_EPOCH, in seconds.
//
//	SOURCE_DATE_EPOCH=1767225600 go run ./cmd/manuals FOLDER
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra/doc"

	"attestd/cmd"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manuals FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "manuals:", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	at := time.Unix(seconds, 0).UTC()
	man, completions := filepath.Join(folder, "man"), filepath.Join(folder, "completions")
	if err := errors.Join(os.MkdirAll(man, 0o755), os.MkdirAll(completions, 0o755)); err != nil {
		return err
	}
	root := cmd.Commands()
	root.DisableAutoGenTag = true // else each page has the date of the day
	header := doc.GenManHeader{Section: "1", Date: &at, Source: "attestd", Manual: "attestd"}
	return errors.Join(doc.GenManTree(root, &header, man),
		root.GenBashCompletionFileV2(filepath.Join(completions, "attestd.bash"), true),
		root.GenZshCompletionFile(filepath.Join(completions, "attestd.zsh")),
		root.GenFishCompletionFile(filepath.Join(completions, "attestd.fish"), true),
		root.GenPowerShellCompletionFileWithDesc(filepath.Join(completions, "attestd.ps1")))
}
