// Command manuals writes the man page of each command of attestd below FOLDER/man, and completions
// of four shells below FOLDER/completions. The pages have the time SECONDS, in Unix's count.
//
//	go run ./cmd/manuals FOLDER SECONDS
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
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: manuals FOLDER SECONDS")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "manuals:", err)
		os.Exit(1)
	}
}

func write(folder, dated string) error {
	seconds, err := strconv.ParseInt(dated, 10, 64)
	if err != nil {
		return err
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
