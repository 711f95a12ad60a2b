package agent

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
	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/spool"
)

// printedSettings represents settings that init has printed, which users may have stored anywhere.
const printedSettings = "(printed)"

// recordSettings adds a line to the connection file: the hooks in these settings need the file.
func (f *initFlags) recordSettings(path, settings string) error {
	text, err := cli.ReadPrivate(path)
	if err != nil {
		return err
	}
	if settings, err = userName(settings); err != nil {
		return err
	}
	added := setup.AddUser(text, settings)
	if f.identity != nil {
		added = setup.AddSigner(added, f.hooks.Agent, settings)
	}
	if added != text {
		return setup.WritePrivate(path, added)
	}
	return nil
}

// userName returns the name of settings in the connection file, which does not depend on the
// working folder.
func userName(settings string) (string, error) {
	if settings == printedSettings {
		return settings, nil
	}
	return filepath.Abs(settings)
}

// runRemove removes what init has written for one settings file.
func (f *initFlags) runRemove(cmd *cobra.Command, s setup.Steps) error {
	found, err := setup.RemoveFrom(f.settings)
	if err != nil {
		return err
	}
	if found {
		s.Print("settings", f.settings+" no longer has hooks of attestd")
	} else {
		s.Print("settings", f.settings+" has no hooks of attestd")
	}
	path, file, err := cli.ReadConnectionFile()
	if err != nil {
		return err
	}
	if path != "" && file != nil {
		if err := f.removeKey(cmd, s, path, file); err != nil {
			return err
		}
	}
	s.Print("left", "the registered agent "+f.hooks.Agent+", and every record")
	return nil
}

// removeKey deletes the connection file and its key, unless something else needs them.
func (f *initFlags) removeKey(cmd *cobra.Command, s setup.Steps, path string, file map[string]string) error {
	text, err := cli.ReadPrivate(path)
	if err != nil {
		return err
	}
	name, err := userName(f.settings)
	if err != nil {
		return err
	}
	if text, err = f.removeSigner(cmd.Context(), s, path, text, name); err != nil {
		return err
	}
	if !setup.HasUser(text, name) {
		s.Print("left", path+" and its key: the file does not show that only these settings need them. If nothing else does: rm "+printable.ShellWord(path))
		return nil
	}
	rest, others := setup.RemoveUser(text, name)
	if others {
		s.Print("left", path+" and its key, which other settings need")
		return setup.WritePrivate(path, rest)
	}
	stored := attestd.Config{URL: file["ATTESTD_URL"], Credential: attestd.Key(file["ATTESTD_KEY"]), Retry: &attestd.Retry{}}
	unsent, err := drain(cmd.Context(), stored, stored)
	if err != nil {
		return err
	}
	if unsent > 0 {
		s.Print("left", printable.Sprintf("%s and its key: %d records are still to be sent with it. Start the server, then run this again", path, unsent))
		return nil
	}
	how := deleteKey(cmd, file)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = os.Remove(filepath.Dir(path)) // fails unless the folder is empty
	s.Print("stored key", path+" deleted; "+how)
	return nil
}

// removeSigner revokes the agent's key and deletes its file, unless other settings need it or
// records wait for it. It returns the text of the connection file as it is then.
func (f *initFlags) removeSigner(ctx context.Context, s setup.Steps, path, text, settings string) (string, error) {
	rest, had, left := setup.RemoveSigner(text, f.hooks.Agent, settings)
	keyFile, err := agentKeyFile(f.hooks.Agent)
	if err != nil || keyFile == "" || !had {
		return text, err
	}
	file, err := attestd.ReadAgentFile(keyFile)
	switch {
	case left && err == nil:
		s.Print("left", keyFile+", the agent's key, with which other settings sign")
		return rest, setup.WritePrivate(path, rest)
	case errors.Is(err, fs.ErrNotExist):
		return rest, setup.WritePrivate(path, rest)
	case err != nil:
		return text, err
	}
	who := file.Identity()
	who.Alarm = warnOf
	identity, err := attestd.NewIdentity(who)
	if err != nil {
		return text, err
	}
	config := attestd.Config{URL: file.URL, Credential: identity, Retry: &attestd.Retry{}}
	unsent, err := drain(ctx, config, attestd.Config{URL: file.URL, Credential: attestd.Key(file.SPIFFEID)})
	if err != nil {
		return text, err
	}
	if unsent > 0 {
		s.Print("left", printable.Sprintf("%s, the agent's key: %d records are still to be sent with it. Start the server, then run this again", keyFile, unsent))
		return text, nil
	}
	how := "revoked on " + file.URL
	if revoked := revokeOwn(ctx, config, identity); revoked != nil {
		how = "still enrolled on " + file.URL + ": " + revoked.Error()
	}
	if err := os.Remove(keyFile); err != nil {
		return text, err
	}
	_ = os.Remove(filepath.Dir(keyFile)) // fails unless the folder is empty
	s.Print("agent key", keyFile+" deleted; its key "+file.Key.Thumbprint()+" is "+how)
	return rest, setup.WritePrivate(path, rest)
}

// revokeOwn revokes the key with which an agent signs in.
func revokeOwn(ctx context.Context, config attestd.Config, identity *attestd.Identity) error {
	c, err := attestd.New(config)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.RevokeAgentKey(ctx, identity.AgentID(), identity.Key().Thumbprint(), attestd.KeyRevocation{Reason: "attestd init --remove"})
	return err
}

// drain sends the records spooled for a credential, and returns how many are still to be sent. of
// has the credential that names the folder.
func drain(ctx context.Context, config, of attestd.Config) (unsent int, err error) {
	folder, err := stateFolder(of)
	if err != nil {
		return 0, err
	}
	if _, err := os.Stat(filepath.Join(folder, "spool")); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	c, err := cli.NewClient(config)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	queue, err := spool.Open(filepath.Join(folder, "spool"), c)
	if err != nil {
		return 0, err
	}
	if queue.Pending() > 0 {
		ctx, cancel := context.WithTimeout(ctx, lastFlush)
		defer cancel()
		_ = queue.Flush(ctx) // Pending counts the records that could not be sent
	}
	return queue.Pending(), nil
}

// deleteKey deletes the key on the server if the environment has an admin's credential. It returns
// a sentence with the outcome.
func deleteKey(cmd *cobra.Command, file map[string]string) string {
	key := file["ATTESTD_KEY"]
	sum := sha256.Sum256([]byte(key))
	valid := "its key " + hex.EncodeToString(sum[:8]) + " stays valid on " + file["ATTESTD_URL"] + ": "
	if os.Getenv("ATTESTD_KEY") == "" && os.Getenv("ATTESTD_KEY_FILE") == "" {
		return valid + "an admin of the company can delete it"
	}
	if given := cmd.Flag("url").Value.String(); given != "" && !cli.SameServer(given, file["ATTESTD_URL"]) {
		return valid + "--url names another server"
	}
	config, err := cli.Connection(cmd)
	if err != nil {
		return valid + err.Error()
	}
	config.URL = file["ATTESTD_URL"]
	if config.Credential == attestd.Key(key) {
		return valid + "a key with the role writer cannot delete it; an admin of the company can"
	}
	admin, err := attestd.New(config)
	if err != nil {
		return valid + err.Error()
	}
	defer admin.Close()
	if err := admin.DeleteKey(cmd.Context(), key); err != nil && !errors.Is(err, &attestd.Error{Status: http.StatusNotFound}) {
		return valid + err.Error()
	}
	return "its key was deleted on " + file["ATTESTD_URL"]
}
