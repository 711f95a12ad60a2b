package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// credentialMode is the widest mode of a credential that a service manager hands over: systemd and
// Kubernetes give the group of the service the right to read what root owns.
const credentialMode fs.FileMode = 0o440

// IsExposed reports whether others than its owner may read or write the file of a secret. A file in
// $CREDENTIALS_DIRECTORY (systemd's LoadCredential=) that root owns may be read by its group, which
// is how the service gets it.
func IsExposed(path string, info fs.FileInfo) bool {
	mode := info.Mode().Perm()
	if mode&0o077 == 0 || runtime.GOOS == "windows" { // Windows has no such bits
		return false
	}
	folder := os.Getenv("CREDENTIALS_DIRECTORY")
	handedOver := folder != "" && filepath.IsAbs(folder) && filepath.Dir(path) == filepath.Clean(folder)
	return !handedOver || mode&^credentialMode != 0 || ownerOf(info) != 0
}
