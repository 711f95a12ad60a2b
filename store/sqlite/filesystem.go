package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// Reliance is what a file system guarantees for a database: SQLite needs locks that hold, pages of
// the index of the write-ahead log that all processes share, and a flush that reaches a disk.
type Reliance int

const (
	// Local is a file system of a disk of this machine, or one that is not known to be another.
	Local Reliance = iota
	// Unsure depends on what is below it: FUSE on its program, an overlay on its container, with
	// which its files go.
	Unsure
	// Network is shared with other machines, or with the host of a virtual one.
	Network
)

// FileSystem is the file system of a folder.
type FileSystem struct {
	Name string // "" where it is not known by name
	Reliance
	why string // of another than Local
}

const (
	sharesNothing = "its locks and shared memory do not reach other machines reliably, which damages a database of SQLite"
	depends       = "whether a database of SQLite holds on it depends on its program"
	goesAway      = "a container's own files go with the container"
)

// Warning says what is wrong with an Unsure or Network file system under a database.
func (f FileSystem) Warning(path string) string {
	return fmt.Sprintf("%s is on %s: %s", path, f.Name, f.why)
}

// fuse is the type of all file systems in user space, which says not which one it is.
const fuse = 0x65735546

// fileSystems are the types that statfs(2) of Linux names which are no plain disk, as in
// linux/magic.h and the sources of those that are not there.
var fileSystems = map[uint32]FileSystem{
	0x00006969: {"NFS", Network, sharesNothing},
	0x0000517B: {"SMB", Network, sharesNothing},
	0xFF534D42: {"SMB (CIFS)", Network, sharesNothing},
	0xFE534D42: {"SMB 2", Network, sharesNothing},
	0x01021997: {"9p", Network, sharesNothing},
	0x0000564C: {"NCP", Network, sharesNothing},
	0x73757245: {"Coda", Network, sharesNothing},
	0x5346414F: {"AFS", Network, sharesNothing},
	0x6B414653: {"AFS", Network, sharesNothing},
	0x00C36400: {"Ceph", Network, sharesNothing},
	0x0BD00BD0: {"Lustre", Network, sharesNothing},
	0x47504653: {"GPFS", Network, sharesNothing},
	0x19830326: {"BeeGFS", Network, sharesNothing},
	0x01161970: {"GFS2", Network, sharesNothing},
	0x7461636F: {"OCFS2", Network, sharesNothing},
	0xAAD7AAEA: {"PanFS", Network, sharesNothing},
	0xBACBACBC: {"a folder that VMware shares", Network, sharesNothing},
	0x786F4256: {"a folder that VirtualBox shares", Network, sharesNothing},
	0x7C7C6673: {"a folder that Parallels shares", Network, sharesNothing},
	fuse:       {"FUSE", Unsure, depends},
	0x794C7630: {"an overlay", Unsure, goesAway},
	0x61756673: {"an overlay (aufs)", Unsure, goesAway},
}

// networkInUserSpace are the types, as mountinfo names them, of file systems in user space of other
// machines, and of the one that a virtual machine has of its host.
var networkInUserSpace = map[string]bool{
	"virtiofs": true, "fuse.sshfs": true, "fuse.glusterfs": true, "fuse.ceph": true, "fuse.ceph-fuse": true, "fuse.s3fs": true,
	"fuse.rclone": true, "fuse.gcsfuse": true, "fuse.blobfuse": true, "fuse.blobfuse2": true, "fuse.mount-s3": true, "fuse.juicefs": true, "fuse.davfs": true,
	"fuse.curlftpfs": true, "fuse.smbnetfs": true, "fuse.seaweedfs": true, "fuse.moosefs": true,
}

// fileSystemOf decides by the type of statfs(2), and of FUSE by the name in mountinfo, "" for an
// unknown one.
func fileSystemOf(magic uint32, mounted string) FileSystem {
	f := fileSystems[magic]
	if magic == fuse && mounted != "" {
		if f.Name = mounted; networkInUserSpace[mounted] {
			f.Reliance, f.why = Network, sharesNothing
		}
	}
	return f
}

// CheckFileSystem requires that a database file is, or would be, on no network file system, unless
// those are allowed. The warning is "" where there is none.
func CheckFileSystem(path string, allowNetwork bool) (warning string, err error) {
	f, err := FileSystemOf(path)
	if errors.Is(err, fs.ErrNotExist) { // a new one, whose folder says it
		f, err = FileSystemOf(filepath.Dir(path))
	}
	if err != nil {
		return "", nil // opening the file reports what is wrong with its path
	}
	return f.judge(path, allowNetwork)
}

func (f FileSystem) judge(path string, allowNetwork bool) (warning string, err error) {
	switch {
	case f.Reliance == Local:
		return "", nil
	case f.Reliance == Network && !allowNetwork:
		return "", fmt.Errorf("%s; put the database on a disk of this machine, or use PostgreSQL; --allow-network-fs starts all the same", f.Warning(path))
	case f.Reliance == Unsure:
		return f.Warning(path) + "; put the database on a volume or disk of its own", nil
	}
	return f.Warning(path) + "; it is allowed by --allow-network-fs", nil
}
