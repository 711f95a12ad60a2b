//go:build unix

package cmd

import (
	"crypto/ed25519"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"attestd/chain/tlog"
	"attestd/cmd/cli"
	"attestd/crypto/seal"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// rightsFlags are the flags whose value is a file, or a folder, that gives rights: what is in it,
// and how it is read.
var rightsFlags = map[string]struct {
	content func(*testing.T) string // "" for a folder
	read    func(t *testing.T, path string) error
}{
	"config": {constant("stream = 'off'\n"), func(t *testing.T, path string) error {
		_, err := readServe(t, "--config", path)
		return err
	}},
	"registration-token-file": {constant("a-token-of-26-characters-x"), func(_ *testing.T, path string) error {
		_, err := parseRegistration("token", path)
		return err
	}},
	"master-key-file":     {masterKey, readMaster},
	"new-master-key-file": {masterKey, readMaster},
	"tls-key": {serverKey, func(t *testing.T, path string) error {
		_, err := (&tlsFlags{cert: certificateOf(t, path), key: path}).openFiles(slog.New(slog.DiscardHandler))
		return err
	}},
	"tls-client-ca": {someCA, func(_ *testing.T, path string) error {
		_, err := (&tlsFlags{clientCA: path}).openClientCAs(slog.New(slog.DiscardHandler))
		return err
	}},
	"acme-ca": {someCA, func(t *testing.T, path string) error {
		_, err := (&tlsFlags{domains: []string{"a.example.com"}, directoryCA: path}).openACME("1.0.0", filepath.Join(t.TempDir(), "acme"), slog.New(slog.DiscardHandler))
		return err
	}},
	"acme-cache": {nil, func(_ *testing.T, path string) error {
		_, err := (&tlsFlags{domains: []string{"a.example.com"}}).openACME("1.0.0", path, slog.New(slog.DiscardHandler))
		return err
	}},
	"ca-file": {someCA, func(_ *testing.T, path string) error {
		_, err := cli.ReadCAs(path)
		return err
	}},
	"cosign-for": {somePolicy, func(_ *testing.T, path string) error {
		_, err := readCosignedLogs(path)
		return err
	}},
	"oidc-rules": {constant(`[{"match":{"groups":"ops"},"companyId":"acme","personId":"alice"}]`), func(t *testing.T, path string) error {
		secret := filepath.Join(t.TempDir(), "secret")
		must.OK(t, os.WriteFile(secret, []byte("secret"), 0o600))
		_, err := oidcFlags{"https://idp.example", "attestd", secret, path}.config(false)
		return err
	}},
	"oidc-client-secret-file": {constant("secret"), func(_ *testing.T, path string) error {
		_, err := oidcFlags{"https://idp.example", "attestd", path, ""}.config(false)
		return err
	}},
	"backup-identity": {identity, readIdentity},
	"identity":        {identity, readIdentity},

	"export-ca-file":   {someCA, readReceiverCA},
	"receiver-ca-file": {someCA, readReceiverCA},
	"export-cert-key":  {serverKey, readReceiverKey},
	"cert-key":         {serverKey, readReceiverKey},

	"export-token-file": {constant("secret"), readReceiverToken},
	"token-file":        {constant("secret"), readReceiverToken},

	"client-secret-file": {constant("secret"), func(_ *testing.T, path string) error {
		_, err := cli.ReadPrivate(path)
		return err
	}},
	"delegation": {constant("secret"), func(_ *testing.T, path string) error {
		_, err := cli.ReadPrivate(path)
		return err
	}},
}

// otherFiles are the other flags whose value is a file or a folder, with why it gives no rights, or
// what refuses one of others.
var otherFiles = map[string]string{
	"db":          "store.Open refuses a file that others may write, and one in such a folder (refused_files.txtar)",
	"heads":       "store.Open refuses one that others may write, and one in such a folder",
	"tls-cert":    "public; it counts with the key of --tls-key alone",
	"export-cert": "public; it counts with its key alone",
	"cert":        "public; it counts with its key alone",
	"export-file": "written; export.NewFile refuses one that others may write",
	"file":        "written; export.NewFile refuses one that others may write",
	"backup-to":   "written and verified; backups refuses a folder that others may write (backup_to.txtar)",
	"backup-temp": "temporary copies, made for their owner alone",
	"state":       "the spool refuses a folder that others may write",
	"cursor":      "how far an export has come; the receiver has the lines",
	"out":         "written",
	"settings":    "of another program, which decides whom it lets write them",
	"passport":    "signed by the company, and checked with its keys",
	"records":     "what somebody tries policies on; no right follows from it",
	"newer":       "checked with the key of the log",
	"policy":      "what somebody who types a check trusts; no right follows from it",
}

func constant(text string) func(*testing.T) string { return func(*testing.T) string { return text } }

func masterKey(*testing.T) string { return string(seal.NewMaster().Bytes()) }

func readMaster(_ *testing.T, path string) error {
	_, err := readMasterKey(path)
	return err
}

// serverKey is a private key behind its certificate, in one text.
func serverKey(t *testing.T) string {
	cert, key := testenv.NewCA(t).Server(t)
	return string(key) + string(cert)
}

// certificateOf puts the certificate in the text of serverKey where no other user can write.
func certificateOf(t *testing.T, keyPath string) string {
	text, err := os.ReadFile(keyPath)
	must.OK(t, err)
	path := filepath.Join(t.TempDir(), "cert.pem")
	must.OK(t, os.WriteFile(path, text, 0o600))
	return path
}

func someCA(t *testing.T) string { return string(testenv.NewCA(t).PEM()) }

func somePolicy(t *testing.T) string {
	public, _, err := ed25519.GenerateKey(nil)
	must.OK(t, err)
	return "log " + tlog.VKey{Name: "log.example.com", Type: tlog.TypeEd25519, Public: public}.String() + "\n"
}

func identity(t *testing.T) string {
	key, err := age.GenerateX25519Identity()
	must.OK(t, err)
	return key.String()
}

func readIdentity(_ *testing.T, path string) error {
	_, err := readIdentities("--identity", path)
	return err
}

func readReceiverCA(_ *testing.T, path string) error {
	_, err := (&destinationFlags{caFile: path}).tls()
	return err
}

func readReceiverKey(t *testing.T, path string) error {
	_, err := (&destinationFlags{cert: certificateOf(t, path), certKey: path}).tls()
	return err
}

func readReceiverToken(_ *testing.T, path string) error {
	_, err := (&destinationFlags{tokenFile: path}).token()
	return err
}

// Each flag whose value is a file, of any command, is in one of the lists: a new one needs a
// decision.
func TestEveryFileFlagIsListed(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			kind, _ := pflag.UnquoteUsage(f)
			if kind == "file" || kind == "folder" || kind == "path" || strings.HasSuffix(f.Name, "-file") {
				found[f.Name] = true
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand("1.0.0", ""))
	for name := range found {
		_, gives := rightsFlags[name]
		if gives == (otherFiles[name] != "") {
			t.Errorf("--%s: does the file give rights? List it in rightsFlags with how it is read, or in otherFiles with the reason", name)
		}
	}
	for name := range rightsFlags {
		if !found[name] {
			t.Errorf("--%s: no command has it", name)
		}
	}
	for name := range otherFiles {
		if !found[name] {
			t.Errorf("--%s: no command has it", name)
		}
	}
}

// A file that gives rights is taken from a place that root and our user alone can change, with all
// folders above it and all links that lead there, whichever flag names it.
func TestFilesThatGiveRights(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	for flag, file := range rightsFlags {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			folder := func(name string, mode os.FileMode) string {
				path := filepath.Join(base, name)
				must.OK(t, os.MkdirAll(path, 0o700))
				must.OK(t, os.Chmod(path, mode))
				return path
			}
			put := func(in, name string, mode os.FileMode) string {
				path := filepath.Join(in, name)
				if file.content == nil {
					must.OK(t, os.Mkdir(path, 0o700))
					must.OK(t, os.Chmod(path, mode|0o100))
					return path
				}
				must.OK(t, os.WriteFile(path, []byte(file.content(t)), 0o600))
				must.OK(t, os.Chmod(path, mode))
				return path
			}
			link := func(to, in, name string) string {
				path := filepath.Join(in, name)
				must.OK(t, os.Symlink(to, path))
				return path
			}
			own, sticky := folder("own", 0o755), folder("sticky", 0o777|os.ModeSticky)
			group, all, below := folder("group", 0o770), folder("all", 0o777), folder("all/below", 0o700)
			good, bad := put(own, "good", 0o600), put(all, "target", 0o600)
			theirs, ofTheirs := put(own, "theirs", 0o600), folder("folder-of-theirs", 0o755)
			inTheirs := put(ofTheirs, "f", 0o600)
			places := map[string]struct {
				path string
				ok   bool
			}{
				"a folder of ours":                           {good, true},
				"a folder with the sticky bit":               {put(sticky, "f", 0o600), true},
				"a link of ours to a file of ours":           {link(good, own, "link"), true},
				"a folder of the group":                      {put(group, "f", 0o600), false},
				"a folder of all":                            {bad, false},
				"below a folder of all":                      {put(below, "f", 0o600), false},
				"a link of ours to a folder of all":          {link(bad, own, "leads-out"), false},
				"a link in a folder of all to one of ours":   {link(good, all, "leads-in"), false},
				"a link to a link in a folder of all":        {link(filepath.Join(all, "leads-in"), own, "twice"), false},
				"a file that the group may write":            {put(own, "of-group", 0o660), false},
				"a file that everybody may write":            {put(own, "of-all", 0o602), false},
				"a folder through a link in a folder of all": {filepath.Join(link(own, all, "folder"), "good"), false},
			}
			if os.Geteuid() == 0 {
				must.OK(t, os.Chown(theirs, 12345, 12345))
				must.OK(t, os.Chown(ofTheirs, 12345, 12345))
				places["a file of another user"] = struct {
					path string
					ok   bool
				}{theirs, false}
				places["a folder of another user"] = struct {
					path string
					ok   bool
				}{inTheirs, false}
			}
			for place, c := range places {
				if err := file.read(t, c.path); (err == nil) != c.ok {
					t.Errorf("%s: %v", place, err)
				}
			}
			// and again, when the folder is another's only since
			must.OK(t, os.Chmod(own, 0o777))
			if err := file.read(t, good); err == nil || !strings.Contains(err.Error(), "may write to it") {
				t.Errorf("once everybody may write the folder: %v", err)
			}
		})
	}
}
