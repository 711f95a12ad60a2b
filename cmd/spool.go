package cmd

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"attestd/sdk/attestd"
)

// placeFor is the folder of what is kept for one server and one credential, or what was given for
// it. What waits there must go to no other.
func placeFor(cmd *cobra.Command, given string) (string, error) {
	if given != "" {
		return given, nil
	}
	config, err := connection(cmd)
	if err != nil {
		return "", err
	}
	return placeOf(config)
}

func placeOf(config attestd.Config) (string, error) {
	state, err := stateFolder()
	if err != nil {
		return "", err
	}
	key, _ := config.Credential.(attestd.Key)
	sum := sha256.Sum256([]byte(config.URL + "\n" + string(key)))
	return filepath.Join(state, "attestd", hex.EncodeToString(sum[:8])), nil
}

// stateFolder is where a user's programs keep what must outlive them and is no setting.
func stateFolder() (string, error) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		return os.UserConfigDir()
	}
	if folder := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(folder) {
		return folder, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", errors.New("no folder for records that are not sent yet: set --spool, XDG_STATE_HOME or HOME")
	}
	return filepath.Join(home, ".local", "state"), nil
}
