package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"attestd/sdk/attestd"
)

// stateFolderOf returns the folder given by --state, or else the folder of the server and the
// credential.
func stateFolderOf(config attestd.Config, given string) (string, error) {
	if given != "" {
		return given, nil
	}
	return stateFolder(config)
}

// stateFolder returns the folder for the state of one server and one credential. Unsent records in
// it MUST NOT be sent to another server or with another credential.
func stateFolder(config attestd.Config) (string, error) {
	state, err := userStateFolder()
	if err != nil {
		return "", err
	}
	key, _ := config.Credential.(attestd.Key)
	sum := sha256.Sum256([]byte(config.URL + "\n" + string(key)))
	return filepath.Join(state, "attestd", hex.EncodeToString(sum[:8])), nil
}

// userStateFolder returns the folder in which the user's programs store state that is no setting.
func userStateFolder() (string, error) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		return os.UserConfigDir()
	}
	if folder := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(folder) {
		return folder, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", errors.New("no folder for unsent records: set --state, XDG_STATE_HOME or HOME")
	}
	return filepath.Join(home, ".local", "state"), nil
}
