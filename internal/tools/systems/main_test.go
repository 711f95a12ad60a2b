package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What does not compile is found on each system that has it, and on no other: in the package and in
// what it imports.
func TestFindsWhatDoesNotCompile(t *testing.T) {
	t.Parallel()
	const imports = "package main\n\nimport \"m/below\"\n\nfunc main() { below.Do() }\n"
	for _, c := range []struct{ name, file, text, windows, linux string }{
		{"nothing", "below/more.go", "package below\n", "", ""},
		{"a name", "below/file_windows.go", "package below\n\nfunc more() { absent() }\n", "undefined: absent", ""},
		{"a type", "file_linux.go", "package main\n\nvar n int = below.Do\n", "", "undefined: below"},
		{"syntax", "below/file_linux.go", "package below\n\nfunc {\n", "", "expected"},
		{"a package", "file_windows.go", "package main\n\nimport _ \"m/absent\"\n", "m/absent", ""},
		{"a function of a system", "file.go", "package main\n\nimport \"syscall\"\n\nvar _ = syscall.Kill\n", "undefined: syscall.Kill", ""},
	} {
		folder := t.TempDir()
		for name, text := range map[string]string{
			"go.mod": "module m\n\ngo 1.26\n", "main.go": imports, "below/below.go": "package below\n\nfunc Do() {}\n", c.file: c.text,
		} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for system, want := range map[string]string{"windows": c.windows, "linux": c.linux} {
			err := check(folder, system, "arm64")
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s, on %s: %v, want %q", c.name, system, err, want)
			}
		}
	}
}
