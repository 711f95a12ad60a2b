package cmd

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"attestd/internal/wholefile"
	"attestd/sdk/attestd/private"
)

func installFlag(cmd *cobra.Command, install *bool) {
	cmd.Flags().BoolVar(install, "install", false, "copy this program to ~/.local/bin, where it stays")
}

// ownProgram returns the name of this program if a shell finds it by that name, else its path. With
// installed it is the copy in ~/.local/bin.
func ownProgram(installed bool) (string, error) {
	own, err := programPath(installed)
	if err != nil {
		return "", err
	}
	if strings.Contains(own, "go-build") {
		return "", usagef("command hooks need an installed program, and \"go run\" deletes this one: go build -o attestd ., or --install")
	}
	if found, err := exec.LookPath("attestd"); err == nil {
		there, err := os.Stat(found)
		here, err2 := os.Stat(own)
		if err == nil && err2 == nil && os.SameFile(there, here) {
			return "attestd", nil
		}
	}
	return own, nil
}

func programPath(installed bool) (string, error) {
	if installed {
		return installedPath()
	}
	return os.Executable()
}

// installedPath is where a user's programs are by the XDG base directory specification.
func installedPath() (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", errors.New("no home folder to install into: set HOME")
	}
	name := "attestd"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(home, ".local", "bin", name), nil
}

// programWarnings says why hooks may lose their program: a project's folder is cleaned, and a
// temporary one is emptied.
func programWarnings(installed bool) (list []string) {
	own, err := programPath(installed)
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(own); err == nil {
		own = real // the link may stay, and lead nowhere
	}
	const remedy = "; --install copies it to ~/.local/bin"
	if tree := workTreeOf(own); tree != "" {
		list = append(list, "the hooks run "+own+" in the git work tree "+tree+", where git clean removes it"+remedy)
	}
	for _, folder := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		if real, err := filepath.EvalSymlinks(folder); err == nil && strings.HasPrefix(own, real+string(filepath.Separator)) {
			return append(list, "the hooks run "+own+" in the temporary folder "+folder+", which is emptied"+remedy)
		}
	}
	return list
}

// workTreeOf returns the work tree of git in which a file is; "" for none.
func workTreeOf(path string) string {
	for folder := filepath.Dir(path); ; folder = filepath.Dir(folder) {
		if _, err := os.Lstat(filepath.Join(folder, ".git")); err == nil {
			return folder
		}
		if folder == filepath.Dir(folder) {
			return ""
		}
	}
}

// installProgram copies this program to ~/.local/bin, and says what it has done. It replaces an
// attestd, and no other program. Nobody else may be able to replace the copy.
func installProgram() (how string, err error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	path, err := installedPath()
	if err != nil {
		return "", err
	}
	if err := private.Check(path); err != nil {
		return "", err
	}
	text, err := os.ReadFile(own)
	if err != nil {
		return "", err
	}
	how, same, err := whatIsThere(path, text)
	if err != nil || same {
		return how, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	if err := wholefile.Replace(path, text, 0o755); err != nil {
		return "", err
	}
	if found, err := exec.LookPath("attestd"); err != nil || filepath.Clean(found) != path {
		how += "; PATH does not lead there, so the settings have the whole path"
	}
	return how, nil
}

// whatIsThere says what stands at a path at which a program with this text is to be installed. same
// says that it is this program; another one than an attestd is an error.
func whatIsThere(path string, text []byte) (how string, same bool, err error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path + " is new, a copy of this program", false, nil
	}
	if err != nil {
		return "", false, err
	}
	isLink := info.Mode()&fs.ModeSymlink != 0
	if info, err = os.Stat(path); errors.Is(err, fs.ErrNotExist) && isLink {
		return path + " was a link that led nowhere, and is a copy of this program", false, nil
	}
	if err != nil {
		return "", false, err
	}
	other := fmt.Errorf("%s is another program, and was not replaced: move it away first", path)
	if !info.Mode().IsRegular() {
		return "", false, other
	}
	built, err := buildinfo.ReadFile(path)
	if err != nil || built.Main.Path != "attestd" {
		return "", false, other
	}
	if isLink {
		target, _ := os.Readlink(path)
		return path + " was a link to " + target + ", and is a copy of this program", false, nil
	}
	if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, text) {
		return path + " is this program", true, nil
	}
	return path + " was another build of attestd, " + versionOf("", built) + ", and is a copy of this program", false, nil
}
