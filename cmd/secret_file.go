package cmd

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// credentialMode is the widest mode of a credential that a service manager hands over: systemd and
// Kubernetes give the group of the service the right to read what root owns.
const credentialMode fs.FileMode = 0o440

// isExposed reports whether others than its owner may read or write the file of a secret. A file in
// $CREDENTIALS_DIRECTORY (systemd's LoadCredential=) that root owns may be read by its group, which
// is how the service gets it.
func isExposed(path string, info fs.FileInfo) bool {
	mode := info.Mode().Perm()
	if mode&0o077 == 0 || runtime.GOOS == "windows" { // Windows has no such bits
		return false
	}
	folder := os.Getenv("CREDENTIALS_DIRECTORY")
	handedOver := folder != "" && filepath.IsAbs(folder) && filepath.Dir(path) == filepath.Clean(folder)
	return !handedOver || mode&^credentialMode != 0 || !ownedByRoot(info)
}

// readSecret reads the file of a secret, up to most bytes, unless accept refuses it.
func readSecret(path string, most int64, accept func(fs.FileInfo) error) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := accept(info); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, most))
}
