package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"attestd/sdk/attestd"
)

// A flag overrides the environment, which overrides the file of init. The key in that file is sent
// only to the server in that file.
func TestConnection(t *testing.T) {
	const own = "ATTESTD_URL=http://a.test:1\nexport ATTESTD_KEY=\"svc_file\"\n# ATTESTD_KEY=svc_not\n"
	for name, c := range map[string]struct {
		args      []string
		env       map[string]string
		file      string // the connection file
		keyFile   string
		mode      os.FileMode
		url, key  string
		wantError string
	}{
		"file":               {file: own, url: "http://a.test:1", key: "svc_file"},
		"file without URL":   {file: "ATTESTD_KEY=svc_file\n", url: DefaultURL, key: "svc_file"},
		"environment":        {file: own, env: map[string]string{"ATTESTD_URL": "http://b.test", "ATTESTD_KEY": "svc_env"}, url: "http://b.test", key: "svc_env"},
		"key alone":          {env: map[string]string{"ATTESTD_KEY": "svc_env"}, url: DefaultURL, key: "svc_env"},
		"key file":           {keyFile: "svc_kept\n", url: DefaultURL, key: "svc_kept"},
		"key over key file":  {keyFile: "svc_kept\n", env: map[string]string{"ATTESTD_KEY": "svc_env"}, url: DefaultURL, key: "svc_env"},
		"flag":               {args: []string{"--url", "http://c.test"}, env: map[string]string{"ATTESTD_URL": "http://b.test", "ATTESTD_KEY": "svc_env"}, url: "http://c.test", key: "svc_env"},
		"same server":        {args: []string{"--url", "http://a.test:1/"}, file: own, url: "http://a.test:1/", key: "svc_file"},
		"another server":     {args: []string{"--url", "http://c.test"}, file: own, wantError: "is for http://a.test:1"},
		"nothing":            {wantError: "no credential"},
		"empty key file":     {keyFile: "\n", wantError: "is empty"},
		"two lines":          {keyFile: "svc_a\nsvc_b\n", wantError: "characters that no key contains"},
		"readable file":      {file: own, mode: 0o644, wantError: "group or others may read it"},
		"readable key file":  {keyFile: "svc_kept", mode: 0o640, wantError: "group or others may read it"},
		"key file not there": {env: map[string]string{"ATTESTD_KEY_FILE": filepath.Join(t.TempDir(), "none")}, wantError: "none"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			for _, name := range []string{"ATTESTD_URL", "ATTESTD_KEY", "ATTESTD_KEY_FILE"} {
				t.Setenv(name, c.env[name])
			}
			t.Setenv("HOME", home)
			t.Setenv("XDG_CONFIG_HOME", "")
			t.Setenv("AppData", home)
			if c.mode == 0 {
				c.mode = 0o600
			} else if runtime.GOOS == "windows" {
				t.Skip("no modes here")
			}
			if c.file != "" {
				path, err := ConnectionFile()
				if err != nil {
					t.Fatal(err)
				}
				writeMode(t, path, c.file, c.mode)
			}
			if c.keyFile != "" {
				path := filepath.Join(home, "key")
				writeMode(t, path, c.keyFile, c.mode)
				t.Setenv("ATTESTD_KEY_FILE", path)
			}
			cmd := &cobra.Command{}
			URLFlag(cmd)
			if err := cmd.ParseFlags(c.args); err != nil {
				t.Fatal(err)
			}
			if err := FromEnvironment(cmd.Flags()); err != nil {
				t.Fatal(err)
			}
			got, err := Connection(cmd)
			if c.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantError) || strings.Contains(err.Error(), "svc_") {
					t.Fatal(err)
				}
				return
			}
			if err != nil || got.URL != c.url || got.Credential != attestd.Key(c.key) {
				t.Errorf("%s %q, %v", got.URL, string(got.Credential.(attestd.Key)), err)
			}
		})
	}
}

func writeMode(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}
