package cmd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"attestd/agent/setup"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/spool"
)

// printedSettings stands for settings that init has printed: somebody may have put them anywhere.
const printedSettings = "(printed)"

// noteUser notes in the connection file that the hooks of these settings need it.
func noteUser(path, settings string) error {
	text, err := readPrivate(path)
	if err != nil {
		return err
	}
	if settings, err = userName(settings); err != nil {
		return err
	}
	if noted := setup.AddUser(text, settings); noted != text {
		return setup.WritePrivate(path, noted)
	}
	return nil
}

// userName is the name of settings in the connection file, wherever one stands.
func userName(settings string) (string, error) {
	if settings == printedSettings {
		return settings, nil
	}
	return filepath.Abs(settings)
}

// runRemove takes back what init has written for one file of settings.
func (f *initFlags) runRemove(cmd *cobra.Command, s setup.Steps) error {
	found, err := setup.RemoveFrom(f.settings)
	if err != nil {
		return err
	}
	if found {
		s.Say("settings", f.settings+" has no hooks of attestd any more")
	} else {
		s.Say("settings", f.settings+" has no hooks of attestd")
	}
	path, file, err := readConnectionFile()
	if err != nil {
		return err
	}
	if path != "" && file != nil {
		if err := f.removeKey(cmd, s, path, file); err != nil {
			return err
		}
	}
	s.Say("left", "the agent "+f.hooks.Agent+" as it is registered, and every record")
	return nil
}

// removeKey deletes the connection file and its key, unless something else needs them.
func (f *initFlags) removeKey(cmd *cobra.Command, s setup.Steps, path string, file map[string]string) error {
	text, err := readPrivate(path)
	if err != nil {
		return err
	}
	name, err := userName(f.settings)
	if err != nil {
		return err
	}
	if !setup.HasUser(text, name) {
		s.Say("left", path+" and its key: init has not noted that these settings alone need them. Where nothing does: rm "+printable.ShellWord(path))
		return nil
	}
	rest, others := setup.RemoveUser(text, name)
	if others {
		s.Say("left", path+" and its key, which other settings need")
		return setup.WritePrivate(path, rest)
	}
	waiting, err := drain(cmd.Context(), file)
	if err != nil {
		return err
	}
	if waiting > 0 {
		s.Say("left", printable.Sprintf("%s and its key: %d records wait to be sent with it. Start the server, and do this again", path, waiting))
		return nil
	}
	how := deleteKey(cmd, file)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = os.Remove(filepath.Dir(path)) // which fails where there is something in it
	s.Say("key", path+" deleted; "+how)
	return nil
}

// drain sends what waits for this key, and says how many records still do.
func drain(ctx context.Context, file map[string]string) (waiting int, err error) {
	folder, err := placeOf(attestd.Config{URL: file["ATTESTD_URL"], Credential: attestd.Key(file["ATTESTD_KEY"])})
	if err != nil {
		return 0, err
	}
	if _, err := os.Stat(filepath.Join(folder, "spool")); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	c, err := attestd.New(attestd.Config{URL: file["ATTESTD_URL"], Credential: attestd.Key(file["ATTESTD_KEY"]), Retry: &attestd.Retry{}})
	if err != nil {
		return 0, usageError{err}
	}
	defer c.Close()
	queue, err := spool.Open(filepath.Join(folder, "spool"), c)
	if err != nil {
		return 0, err
	}
	if queue.Pending() > 0 {
		ctx, cancel := context.WithTimeout(ctx, lastFlush)
		defer cancel()
		_ = queue.Flush(ctx) // what is left is counted
	}
	return queue.Pending(), nil
}

// deleteKey deletes the key on the server, where an admin's credential is at hand, and says what
// became of it.
func deleteKey(cmd *cobra.Command, file map[string]string) string {
	key := file["ATTESTD_KEY"]
	sum := sha256.Sum256([]byte(key))
	valid := "its key " + hex.EncodeToString(sum[:8]) + " stays valid on " + file["ATTESTD_URL"] + ": "
	if os.Getenv("ATTESTD_KEY") == "" && os.Getenv("ATTESTD_KEY_FILE") == "" {
		return valid + "an admin of the company can delete it"
	}
	if given := cmd.Flag("url").Value.String(); given != "" && !sameServer(given, file["ATTESTD_URL"]) {
		return valid + "--url names another server"
	}
	config, err := connection(cmd)
	if err != nil {
		return valid + err.Error()
	}
	config.URL = file["ATTESTD_URL"]
	if config.Credential == attestd.Key(key) {
		return valid + "a key of the role writer deletes none; an admin of the company can"
	}
	admin, err := attestd.New(config)
	if err != nil {
		return valid + err.Error()
	}
	defer admin.Close()
	if err := admin.DeleteKey(cmd.Context(), key); err != nil && !errors.Is(err, &attestd.Error{Status: http.StatusNotFound}) {
		return valid + err.Error()
	}
	return "its key is deleted on " + file["ATTESTD_URL"]
}
