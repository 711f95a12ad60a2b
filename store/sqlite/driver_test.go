package sqlite

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/mod/modfile"
)

// The driver modernc.org/sqlite is correct only with exactly the version of modernc.org/libc that
// it was generated for.
func TestLibcMatchesDriver(t *testing.T) {
	t.Parallel()
	ours := requirements(t, "../../go.mod")
	driver := requirements(t, driverMod(t, ours["modernc.org/sqlite"]))
	if have, want := ours["modernc.org/libc"], driver["modernc.org/libc"]; have != want || want == "" {
		t.Errorf("modernc.org/libc %s, the driver's go.mod pins %s", have, want)
	}
}

// driverMod returns the path where the go command keeps the driver's go.mod.
func driverMod(t *testing.T, version string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.GoMod}}", "modernc.org/sqlite@"+version).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(out))
}

func requirements(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := modfile.ParseLax(path, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, r := range f.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	return versions
}
