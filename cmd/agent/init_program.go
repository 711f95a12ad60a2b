package agent

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/atomicfile"
	"attestd/internal/regular"
	"attestd/sdk/attestd/private"
)

// The names of the programs of attestd: the one with all commands, and the one for the machine of
// an agent, which starts sooner.
const (
	fullProgram  = "attestd"
	smallProgram = "attestd-agent"
)

func installFlag(cmd *cobra.Command, install *bool) {
	cmd.Flags().BoolVar(install, "install", false, "copy this program to ~/.local/bin, where it stays, and attestd-agent from the same folder")
}

// programName is how a program is called in commands: its name if a shell finds it by that name,
// else its path. With installed it is the copy in ~/.local/bin.
func programName(installed bool) (string, error) {
	own, err := hookProgram(installed)
	if err != nil {
		return "", err
	}
	if strings.Contains(own, "go-build") {
		return "", cli.Usagef("command hooks need an installed program, and \"go run\" deletes this one: go build -o attestd ., or --install")
	}
	name := strings.TrimSuffix(filepath.Base(own), ".exe")
	if found, err := exec.LookPath(name); err == nil {
		there, err := os.Stat(found)
		here, err2 := os.Stat(own)
		if err == nil && err2 == nil && os.SameFile(there, here) {
			return name, nil
		}
	}
	return own, nil
}

// hookProgram returns the path of the program that hooks and proxies run: the small one where it
// is in the folder of this one and of the same build, else this one.
func hookProgram(installed bool) (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	program := cmp.Or(smallProgramPath(own), own)
	if !installed {
		return program, nil
	}
	return installedPath(program)
}

// ownPrograms are the paths of this program and of the small one in its folder.
func ownPrograms() (paths []string) {
	own, err := os.Executable()
	if err != nil {
		return nil
	}
	paths = []string{own}
	if small := smallProgramPath(own); small != "" {
		paths = append(paths, small)
	}
	return paths
}

// smallProgramPath returns the path of the small program in the folder of this one, "" where there
// is none of the same build, or one that others could replace.
func smallProgramPath(own string) string {
	name := executable(smallProgram)
	path := filepath.Join(filepath.Dir(own), name)
	if filepath.Base(own) == name {
		return ""
	}
	text, err := regular.Read(path)
	if err != nil || private.Check(path) != nil {
		return ""
	}
	if info, ok := debug.ReadBuildInfo(); !ok || !bytes.Contains(text, []byte(mark+info.Main.Version+"\t")) {
		return ""
	}
	return path
}

// mark is in the build information of every program of attestd, before its version.
const mark = "\nmod\tattestd\t"

// executable is the name of a program's file.
func executable(name string) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return name
}

// installedPath is where a user's programs are by the XDG base directory specification.
func installedPath(program string) (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", errors.New("no home folder to install into: set HOME")
	}
	name := fullProgram
	if filepath.Base(program) == executable(smallProgram) {
		name = smallProgram
	}
	return filepath.Join(home, ".local", "bin", executable(name)), nil
}

// programWarnings says why hooks may lose their program: a project's folder is cleaned, and a
// temporary one is emptied.
func programWarnings(installed bool) (list []string) {
	own, err := hookProgram(installed)
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

// installPrograms copies this program to ~/.local/bin, and the small one from the same folder, and
// says of each what it has done.
func installPrograms() (how []string, err error) {
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for _, program := range []string{own, smallProgramPath(own)} {
		if program == "" {
			continue
		}
		line, err := installProgram(program)
		if err != nil {
			return how, err
		}
		how = append(how, line)
	}
	return how, nil
}

// installProgram copies a program to ~/.local/bin. It replaces a program of attestd, and no other.
// No other user may be able to replace the copy.
func installProgram(program string) (how string, err error) {
	path, err := installedPath(program)
	if err != nil {
		return "", err
	}
	if err := private.Check(path); err != nil {
		return "", err
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return "", err
	}
	how, same, err := existingProgram(path, program, text)
	if err != nil || same {
		return how, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	if err := atomicfile.Replace(path, text, 0o755); err != nil {
		return "", err
	}
	if found, err := exec.LookPath(filepath.Base(path)); err != nil || filepath.Clean(found) != path {
		how += "; PATH does not lead there, so the settings have the whole path"
	}
	return how, nil
}

// existingProgram says what is at a path at which a program with this text is to be installed. same
// says that it is this program; another one than an attestd is an error.
func existingProgram(path, program string, text []byte) (how string, same bool, err error) {
	copied := "is a copy of " + program
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path + " is new, and " + copied, false, nil
	}
	if err != nil {
		return "", false, err
	}
	isLink := info.Mode()&fs.ModeSymlink != 0
	if _, err = os.Stat(path); errors.Is(err, fs.ErrNotExist) && isLink {
		return path + " was a link that led nowhere, and " + copied, false, nil
	}
	if err != nil {
		return "", false, err
	}
	there, err := regular.Read(path)
	switch {
	case errors.Is(err, regular.ErrKind), err == nil && !bytes.Contains(there, []byte(mark)):
		return "", false, fmt.Errorf("%s is another program, and was not replaced: move it away first", path)
	case err != nil:
		return "", false, err
	}
	if isLink {
		target, _ := os.Readlink(path)
		return path + " was a link to " + target + ", and " + copied, false, nil
	}
	if bytes.Equal(there, text) {
		return path + " is this program", true, nil
	}
	return path + " was another build of attestd, and " + copied, false, nil
}
