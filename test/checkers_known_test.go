package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// atHome is the environment of a process with this home folder, where it finds no keys that the
// person trusts who runs the tests.
func atHome(home string) []string {
	return append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME=", "AppData="+filepath.Join(home, ".config"))
}

// configFolder returns the folder of attestd's configuration below a home folder.
func configFolder(home string) string {
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "attestd")
	}
	return filepath.Join(home, ".config", "attestd")
}

// storeKeys writes the file of trusted keys below a home folder, and returns its path.
func storeKeys(t *testing.T, home, lines string) string {
	t.Helper()
	path := filepath.Join(configFolder(home), "trusted-keys")
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.OK(t, os.WriteFile(path, []byte(lines), 0o600))
	return path
}

// A key that attestd trust has stored confirms the files of its company in each checker, as if it
// was typed, and no other ones. The three checkers read the same file, and refuse the same of it.
func TestCheckersTakeTheKeysThatAreStored(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	attestd, err := binary(t)
	must.OK(t, err)
	checkers := []struct {
		name    string
		command []string
	}{
		{"attestd check", []string{attestd, "check"}},
		{"check.py", []string{pythonWithCryptography(t), "../sdk/python/attestd/check.py"}},
		{"check.mjs", []string{testenv.Path(t, "node"), "../web/check.mjs"}},
	}
	const agentKey = "rmqQfGdG6AHIBRiK_myuURlwB-jCJkJqP1hdDDXhgag"
	otherKey := "SHA256:" + strings.Repeat("A", 43)
	ours, others := "acme "+sampleKey+"\n", "other "+otherKey+"\n"
	evidence := t.TempDir()
	for _, name := range []string{"small.json", "signed.json", "session-open.jsonl", "policy"} {
		must.OK(t, os.WriteFile(filepath.Join(evidence, name), []byte(evidenceSample(t, name)), 0o600))
	}
	const (
		holds, unconfirmed, fails, refused = 0, 5, 4, 1
		unix                               = true // modes and links
	)
	trust := func(t *testing.T, home string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), attestd, append([]string{"trust"}, args...)...)
		cmd.Env = atHome(home)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, test := range []struct {
		name    string
		status  int
		message string // the checker: of the verdict, or of its refusal
		store   func(t *testing.T, home string)
		args    []string // small.json without any
		env     func(home string) string
		unix    bool
	}{
		{name: "no file", status: unconfirmed, message: "holds, key not confirmed", store: func(*testing.T, string) {}},
		{name: "an empty file", status: unconfirmed, message: "holds, key not confirmed", store: func(t *testing.T, home string) { storeKeys(t, home, "") }},
		{name: "the company's key", status: holds, message: "company's key " + sampleKey + ", which is stored as trusted on this machine",
			store: func(t *testing.T, home string) { trust(t, home, "add", "acme", sampleKey) }},
		{name: "keys of two companies", status: holds, message: "which is stored as trusted on this machine", store: func(t *testing.T, home string) {
			trust(t, home, "add", "other", otherKey)
			trust(t, home, "add", "acme", sampleKey)
		}},
		{name: "a file with comments", status: holds, message: "holds\n", store: func(t *testing.T, home string) {
			storeKeys(t, home, "# from the contract, f\xfcr alle\r\n\r\n \t#\n\tacme   "+sampleKey+" \r\n"+strings.TrimSpace(others))
		}},
		{name: "the file of a session", status: holds, message: "confirmed by the key that is stored as trusted on this machine", args: []string{"session-open.jsonl"},
			store: func(t *testing.T, home string) { storeKeys(t, home, ours) }},
		{name: "the agent's key beside it", status: holds, message: "confirmed by the key that is stored as trusted on this machine", args: []string{"signed.json", "--agent-key", agentKey},
			store: func(t *testing.T, home string) { storeKeys(t, home, ours) }},
		{name: "only another company's key", status: unconfirmed, message: "that it is the company's is not confirmed",
			store: func(t *testing.T, home string) { trust(t, home, "add", "other", sampleKey) }},
		{name: "another key of the company", status: fails, message: "fails: KEY: the file does not contain the key that you trust",
			store: func(t *testing.T, home string) { trust(t, home, "add", "acme", otherKey) }},
		{name: "a key that was removed", status: unconfirmed, message: "holds, key not confirmed", store: func(t *testing.T, home string) {
			trust(t, home, "add", "acme", sampleKey)
			trust(t, home, "remove", "acme")
		}},
		{name: "a typed key counts in its place", status: holds, message: ", which you named", args: []string{"small.json", "--key", sampleKey},
			store: func(t *testing.T, home string) { storeKeys(t, home, "acme "+otherKey+"\n") }},
		{name: "so does a wrong one", status: fails, message: "fails: KEY: ", args: []string{"small.json", "--key", otherKey},
			store: func(t *testing.T, home string) { storeKeys(t, home, ours) }},
		{name: "and a policy", status: fails, message: "fails: POLICY: ", args: []string{"small.json", "--policy", "policy"},
			store: func(t *testing.T, home string) { storeKeys(t, home, ours) }},
		{name: "a typed key beside a file that is refused", status: holds, message: ", which you named", args: []string{"small.json", "--key", sampleKey},
			store: func(t *testing.T, home string) { storeKeys(t, home, "acme\n") }},

		{name: "a line without a key", status: refused, message: `trusted-keys: line 2 is not a company and the fingerprint of a key: "acme"`,
			store: func(t *testing.T, home string) { storeKeys(t, home, others+"acme\n") }},
		{name: "a line with more", status: refused, message: "trusted-keys: line 1 is not", store: func(t *testing.T, home string) { storeKeys(t, home, "acme "+sampleKey+" since 2025\n") }},
		{name: "a key that is cut", status: refused, message: "trusted-keys: line 1 is not", store: func(t *testing.T, home string) { storeKeys(t, home, ours[:len(ours)-2]) }},
		{name: "a name of no company", status: refused, message: "trusted-keys: line 1 is not", store: func(t *testing.T, home string) { storeKeys(t, home, ".. "+sampleKey) }},
		{name: "two keys of a company", status: refused, message: "acme has two keys", store: func(t *testing.T, home string) { storeKeys(t, home, ours+"acme "+otherKey+"\n") }},
		{name: "the same key twice", status: refused, message: "acme has two keys", store: func(t *testing.T, home string) { storeKeys(t, home, ours+ours) }},
		{name: "the largest file", status: holds, message: "holds\n", store: func(t *testing.T, home string) {
			storeKeys(t, home, ours+strings.Repeat("#", 64<<10-len(ours)))
		}},
		{name: "a larger one", status: refused, message: "trusted-keys has more than 65536 bytes", store: func(t *testing.T, home string) {
			storeKeys(t, home, ours+strings.Repeat("#", 64<<10-len(ours)+1))
		}},
		{name: "a folder in its place", status: refused, message: "trusted-keys", store: func(t *testing.T, home string) {
			must.OK(t, os.MkdirAll(filepath.Join(configFolder(home), "trusted-keys"), 0o700))
		}},
		{name: "a pipe in its place", status: refused, message: "trusted-keys is not a regular file", unix: true, store: func(t *testing.T, home string) {
			must.OK(t, os.MkdirAll(configFolder(home), 0o700))
			must.OK(t, exec.CommandContext(t.Context(), "mkfifo", filepath.Join(configFolder(home), "trusted-keys")).Run())
		}},
		{name: "a file that others may write", status: refused, message: "others can write ", unix: true, store: func(t *testing.T, home string) {
			must.OK(t, os.Chmod(storeKeys(t, home, ours), 0o602))
		}},
		{name: "a file that the group may write", status: refused, message: "others can write ", unix: true, store: func(t *testing.T, home string) {
			must.OK(t, os.Chmod(storeKeys(t, home, ours), 0o620))
		}},
		{name: "a file that others may read", status: holds, message: "holds\n", unix: true, store: func(t *testing.T, home string) {
			must.OK(t, os.Chmod(storeKeys(t, home, ours), 0o644))
		}},
		{name: "a folder that others may write", status: refused, message: " write ", unix: true, store: func(t *testing.T, home string) {
			must.OK(t, os.Chmod(filepath.Dir(filepath.Dir(storeKeys(t, home, ours))), 0o777))
		}},
		{name: "a folder that is shared as /tmp is", status: holds, message: "holds\n", unix: true, store: func(t *testing.T, home string) {
			must.OK(t, os.Chmod(filepath.Dir(filepath.Dir(storeKeys(t, home, ours))), os.ModeSticky|0o777))
		}},
		{name: "a link into such a folder", status: refused, message: " write ", unix: true, store: func(t *testing.T, home string) {
			shared := filepath.Join(home, "shared")
			must.OK(t, os.Mkdir(shared, 0o700))
			must.OK(t, os.Chmod(shared, 0o777))
			must.OK(t, os.WriteFile(filepath.Join(shared, "keys"), []byte(ours), 0o600))
			must.OK(t, os.MkdirAll(configFolder(home), 0o700))
			must.OK(t, os.Symlink("../../shared/keys", filepath.Join(configFolder(home), "trusted-keys")))
		}},
		{name: "a link to a file of one's own", status: holds, message: "holds\n", unix: true, store: func(t *testing.T, home string) {
			must.OK(t, os.MkdirAll(configFolder(home), 0o700))
			must.OK(t, os.WriteFile(filepath.Join(home, "keys"), []byte(ours), 0o600))
			must.OK(t, os.Symlink(filepath.Join(home, "keys"), filepath.Join(configFolder(home), "trusted-keys")))
		}},
		{name: "a link that leads to itself", status: refused, message: "trusted-keys", unix: true, store: func(t *testing.T, home string) {
			must.OK(t, os.MkdirAll(configFolder(home), 0o700))
			must.OK(t, os.Symlink("trusted-keys", filepath.Join(configFolder(home), "trusted-keys")))
		}},
		{name: "a link to nothing", status: unconfirmed, message: "holds, key not confirmed", unix: true, store: func(t *testing.T, home string) {
			must.OK(t, os.MkdirAll(configFolder(home), 0o700))
			must.OK(t, os.Symlink("nothing", filepath.Join(configFolder(home), "trusted-keys")))
		}},
		{name: "a refused file comes before all else", status: refused, message: "trusted-keys: line 1 is not", args: []string{"nothing.json", "--agent-key", "short"},
			store: func(t *testing.T, home string) { storeKeys(t, home, "acme\n") }},

		{name: "the folder of XDG_CONFIG_HOME", status: holds, message: "holds\n", unix: true, env: func(home string) string { return "XDG_CONFIG_HOME=" + home + "/xdg" },
			store: func(t *testing.T, home string) {
				must.OK(t, os.MkdirAll(home+"/xdg/attestd", 0o700))
				must.OK(t, os.WriteFile(home+"/xdg/attestd/trusted-keys", []byte(ours), 0o600))
				storeKeys(t, home, "acme "+otherKey)
			}},
		{name: "a relative XDG_CONFIG_HOME", status: unconfirmed, message: "holds, key not confirmed", unix: true, env: func(string) string { return "XDG_CONFIG_HOME=.config" },
			store: func(t *testing.T, home string) { storeKeys(t, home, ours) }},
		{name: "no home", status: unconfirmed, message: "holds, key not confirmed", unix: true, env: func(string) string { return "HOME=" },
			store: func(t *testing.T, home string) { storeKeys(t, home, ours) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.unix && runtime.GOOS == "windows" {
				t.Skip("of modes and links")
			}
			home := t.TempDir()
			test.store(t, home)
			args := slices.Clone(test.args)
			if args == nil {
				args = []string{"small.json"}
			}
			for i, arg := range args {
				if strings.Contains(arg, ".json") || arg == "policy" {
					args[i] = filepath.Join(evidence, arg)
				}
			}
			for _, checker := range checkers {
				cmd := exec.CommandContext(t.Context(), checker.command[0], append(checker.command[1:len(checker.command):len(checker.command)], args...)...)
				if cmd.Env = atHome(home); test.env != nil {
					cmd.Env = append(cmd.Env, test.env(home))
				}
				var out, log strings.Builder
				cmd.Stdout, cmd.Stderr = &out, &log
				_ = cmd.Run() // the exit status is compared
				message := out.String()
				if test.status == refused {
					if message = log.String(); out.Len() > 0 {
						t.Errorf("%s prints %q beside no verdict", checker.name, out.String())
					}
				}
				if status := cmd.ProcessState.ExitCode(); status != test.status || !strings.Contains(message, test.message) {
					t.Errorf("%s: exit status %d, %.400q; want %d and %q", checker.name, status, message, test.status, test.message)
				}
			}
		})
	}
}
