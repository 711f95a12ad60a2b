package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
)

// manuals returns what the source's own command writes: a man page for each command below man/, and
// completions for shells below completions/.
func (r *release) manuals() (files []file, err error) {
	folder, err := os.MkdirTemp("", "attestd-manuals-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	cmd := exec.Command("go", "run", "./cmd/manuals", folder, fmt.Sprint(r.time.Unix()))
	cmd.Dir, cmd.Stderr = r.source, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	root := os.DirFS(folder)
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(root, name)
		files = append(files, file{name: name, text: text, mode: 0o644})
		return err
	})
	return files, err
}
