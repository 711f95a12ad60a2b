package packages

import (
	"archive/zip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

const python = "../../sdk/python"

// What is built of the Python client for an installation holds its modules, its types and the mark
// that it is typed; all of its types are known, and pyright's strict mode takes a program that uses
// it rightly and refuses what is wrong.
func TestPythonPackageIsTyped(t *testing.T) {
	t.Parallel()
	const interpreter = "/usr/bin/python3"
	if out, err := exec.CommandContext(t.Context(), interpreter, "-c", "import setuptools, wheel").CombinedOutput(); err != nil {
		testenv.Missing(t, "apt-get install python3-setuptools python3-wheel: "+string(out))
	}
	source, site := t.TempDir(), t.TempDir()
	for _, name := range []string{"pyproject.toml", "README.md"} {
		text, err := os.ReadFile(filepath.Join(python, name))
		must.OK(t, err)
		must.OK(t, os.WriteFile(filepath.Join(source, name), text, 0o600))
	}
	must.OK(t, os.CopyFS(filepath.Join(source, "attestd"), os.DirFS(filepath.Join(python, "attestd"))))
	build := exec.CommandContext(t.Context(), interpreter, "-c", "from setuptools import build_meta; build_meta.build_wheel('.')")
	build.Dir = source
	run(t, build)
	wheels, err := filepath.Glob(source + "/attestd-*-py3-none-any.whl")
	must.OK(t, err)
	if len(wheels) != 1 {
		t.Fatal("built is ", wheels)
	}
	metadata := unzip(t, wheels[0], site)
	for _, texts := range []string{"Name: attestd\n", "Requires-Python: >=3.9\n", "Summary: Client for attestd", "Typing :: Typed", "# attestd\n"} {
		if !strings.Contains(metadata, texts) {
			t.Errorf("the metadata lacks %q:\n%s", texts, metadata)
		}
	}
	files, err := os.ReadDir(filepath.Join(python, "attestd"))
	must.OK(t, err)
	for _, file := range files {
		if _, err := os.Stat(filepath.Join(site, "attestd", file.Name())); err != nil && file.Name() != "__pycache__" {
			t.Error(err)
		}
	}
	verify := tool(t, site, "pyright", "--verifytypes", "attestd", "--ignoreexternal", "--pythonpath", interpreter)
	verify.Env = append(os.Environ(), "PYTHONPATH="+site)
	run(t, verify)
	run(t, tool(t, python, "pyright", "-p", ".", "--pythonversion", "3.9"))
	run(t, tool(t, python, "pyright", "-p", ".", "--pythonversion", "3.14"))
}

// unzip unpacks a wheel, and returns its metadata.
func unzip(t *testing.T, wheel, to string) (metadata string) {
	t.Helper()
	files, err := zip.OpenReader(wheel)
	must.OK(t, err)
	defer files.Close()
	for _, file := range files.File {
		in, err := file.Open()
		must.OK(t, err)
		text, err := io.ReadAll(in)
		must.OK(t, err)
		if path := filepath.Join(to, filepath.FromSlash(file.Name)); filepath.Base(path) == "METADATA" {
			metadata = string(text)
		} else {
			must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
			must.OK(t, os.WriteFile(path, text, 0o600))
		}
	}
	return metadata
}
