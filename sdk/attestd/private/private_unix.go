//go:build unix

package private

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkOwner refuses a file or folder that others may change; above says that it is a folder above
// the path in question.
func checkOwner(path string, info fs.FileInfo, above bool) error {
	if err := owner(path, info); err != nil {
		return err
	}
	mode := info.Mode()
	if mode.Perm()&0o022 == 0 || above && mode&fs.ModeSticky != 0 {
		return nil
	}
	return fmt.Errorf("%s: group or others may write to it (mode %o), and so change or replace what is there; chmod go-w, or name another place", path, mode.Perm())
}

// owner refuses what belongs to another user, root aside.
func owner(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid == 0 || int(stat.Uid) == os.Geteuid() {
		return nil
	}
	return fmt.Errorf("%s belongs to another user (%d), who may change or replace what is there; name another place", path, stat.Uid)
}

// open reports whether group or others may read a file.
func open(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 != 0 }
