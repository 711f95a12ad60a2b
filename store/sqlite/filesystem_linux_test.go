package sqlite_test

import (
	"strings"
	"testing"

	"attestd/store/sqlite"
)

// A network file system is known by the type that statfs(2) gives, and virtiofs and those in user
// space by their name in mountinfo; FUSE and overlays are neither a disk nor a network.
func TestFileSystemsThatAreNoDisk(t *testing.T) {
	t.Parallel()
	network := map[uint32]string{
		0x6969: "NFS", 0x517B: "SMB", 0xFF534D42: "SMB (CIFS)", 0xFE534D42: "SMB 2", 0x01021997: "9p", 0x00C36400: "Ceph",
		0x0BD00BD0: "Lustre", 0x5346414F: "AFS", 0x6B414653: "AFS", 0x73757245: "Coda", 0x564C: "NCP", 0x47504653: "GPFS",
		0x19830326: "BeeGFS", 0x01161970: "GFS2", 0x7461636F: "OCFS2", 0xAAD7AAEA: "PanFS",
		0xBACBACBC: "a folder that VMware shares", 0x786F4256: "a folder that VirtualBox shares", 0x7C7C6673: "a folder that Parallels shares",
	}
	unsure := map[uint32]string{0x65735546: "FUSE", 0x794C7630: "an overlay", 0x61756673: "an overlay (aufs)"}
	if len(network)+len(unsure) != len(sqlite.KnownFileSystems) {
		t.Errorf("%d types are known, and %d are tested", len(sqlite.KnownFileSystems), len(network)+len(unsure))
	}
	check := func(magic uint32, mounted, name string, reliance sqlite.Reliance) {
		t.Helper()
		f := sqlite.DecideFileSystem(magic, mounted)
		if f.Name != name || f.Reliance != reliance {
			t.Errorf("%#x %q: %+v", magic, mounted, f)
		}
		if said := f.Warning("/data"); reliance != sqlite.Local && (!strings.HasPrefix(said, "/data is on "+name+": ") || strings.HasSuffix(said, ": ")) {
			t.Errorf("%#x %q: %s", magic, mounted, said)
		}
	}
	for magic, name := range network {
		check(magic, "", name, sqlite.Network)
	}
	for magic, name := range unsure {
		check(magic, "", name, sqlite.Unsure)
	}
	for _, mounted := range []string{"virtiofs", "fuse.sshfs", "fuse.glusterfs", "fuse.s3fs"} {
		check(0x65735546, mounted, mounted, sqlite.Network)
	}
	check(0x65735546, "fuse.gocryptfs", "fuse.gocryptfs", sqlite.Unsure)
	// ext4, XFS, btrfs, ZFS, tmpfs, F2FS, and none
	for _, magic := range []uint32{0xEF53, 0x58465342, 0x9123683E, 0x2FC12FC1, 0x01021994, 0xF2F52010, 0} {
		check(magic, "", "", sqlite.Local)
	}
}

// A network file system is refused with what to do, unless it is allowed; then, and on FUSE and
// overlays, there is a warning alone.
func TestNetworkFileSystemIsRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		magic         uint32
		allowed       bool
		warning, fail string
	}{
		{0x6969, false, "", "/data/a.db is on NFS: … --allow-network-fs"},
		{0x6969, true, "/data/a.db is on NFS: … --allow-network-fs", ""},
		{0x794C7630, false, "/data/a.db is on an overlay: a container's own files go with the container; … volume", ""},
		{0x65735546, false, "/data/a.db is on FUSE: … volume", ""},
		{0xEF53, false, "", ""},
		{0xEF53, true, "", ""},
	} {
		warning, err := sqlite.JudgeFileSystem(sqlite.DecideFileSystem(test.magic, ""), "/data/a.db", test.allowed)
		fail := ""
		if err != nil {
			fail = err.Error()
		}
		for got, want := range map[string]string{warning + " ": test.warning, fail: test.fail} {
			begin, end, _ := strings.Cut(want, "…")
			if (strings.TrimSpace(got) == "") != (want == "") || !strings.HasPrefix(got, begin) || !strings.Contains(got, strings.TrimSpace(end)) {
				t.Errorf("%#x, allowed %v: %q, want %q", test.magic, test.allowed, got, want)
			}
		}
	}
	path := t.TempDir() + "/new.db" // whose folder is asked about
	if _, err := sqlite.CheckFileSystem(path, false); err != nil {
		t.Error(err)
	}
}

// The system is asked about the folder itself, and about nothing that is not there.
func TestFileSystemOfAFolder(t *testing.T) {
	t.Parallel()
	f, err := sqlite.FileSystemOf(t.TempDir())
	if err != nil || f.Reliance == sqlite.Network {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := sqlite.FileSystemOf(t.TempDir() + "/none"); err == nil {
		t.Errorf("%+v of nothing", f)
	}
	// a file system of the kernel that is everywhere, and no disk
	if f, err := sqlite.FileSystemOf("/proc"); err != nil || f.Reliance != sqlite.Local {
		t.Errorf("%+v, %v", f, err)
	}
}

// The type of a mount is read as proc_pid_mountinfo(5) says, by the device, behind any number of
// optional fields.
func TestMountIsFoundByItsDevice(t *testing.T) {
	t.Parallel()
	const mounts = `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
40 35 0:52 / /data\040x rw - virtiofs share rw
41 35 0:53 / /home rw shared:2 master:1 - fuse.sshfs a@b:/ rw
`
	for device, want := range map[string]string{"98:0": "ext3", "0:52": "virtiofs", "0:53": "fuse.sshfs", "0:5": "", "": ""} {
		if got := sqlite.TypeOfDevice(strings.NewReader(mounts), device); got != want {
			t.Errorf("%s is %q, want %q", device, got, want)
		}
	}
}
