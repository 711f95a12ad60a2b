// Command python unpacks a CPython that is newer than those of distributions into a folder: go -C
// internal/tools/python run . FOLDER. The tests of the Python client find it where
// ATTESTD_TEST_PYTHONS names the folder above.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/kluctl/go-embed-python/python"
)

func main() {
	if len(os.Args) != 2 || !filepath.IsAbs(os.Args[1]) {
		fmt.Fprintln(os.Stderr, "usage: go run . FOLDER, an absolute path")
		os.Exit(2)
	}
	p, err := python.NewEmbeddedPythonWithTmpDir(os.Args[1], false)
	if err == nil {
		_, err = p.GetExePath() // it is there
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
