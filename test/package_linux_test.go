package test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// waits are what the walk of docs/operate/first-day.md waits for behind its blocks, as its reader
// does.
var waits = []string{
	1: `await attestd health --ready --url https://attest.example.com --ca-file ca.pem
await bash -c "ls /var/backups/attestd/*.json"`,
	5: `await attestd health --url http://127.0.0.1:8081`,
	6: `await attestd health --ready
await finds 'attestd_witness_answered_timestamp_seconds{.*} [1-9]' curl -s http://127.0.0.1:9464/metrics
await finds 'attestd_witness_refused_logs{.*} 0' curl -s http://127.0.0.1:9464/metrics`,
	7: `await finds '"1"' curl -s 'http://127.0.0.1:9090/api/v1/query?query=up'`,
	8: `await finds degraded attestd health --ready`,
}

// The walk from the Debian package to an alert, as docs/operate/first-day.md types it, in a copy
// of this machine's files: the real package, Prometheus and curl, and in place of systemd a script
// that starts the service as its unit says.
func TestFromPackageToAlert(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced, testenv.Hours, testenv.Program("prometheus"), testenv.Program("unshare"),
		testenv.Program("setpriv"), testenv.Program("apt-get"))
	if os.Getuid() != 0 {
		t.Skip("needs root, for a file system of its own")
	}
	t.Parallel()
	work := t.TempDir()
	given, bin := filepath.Join(work, "given"), filepath.Join(work, "bin")
	for _, folder := range []string{given, bin, filepath.Join(work, "layers")} {
		must.OK(t, os.Mkdir(folder, 0o700))
	}
	run := func(folder string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	run("../internal/tools", "go", "run", "./dist", "-out", filepath.Join(work, "dist"), "-systems", "linux/amd64", "../..")
	packages, err := filepath.Glob(filepath.Join(work, "dist", "*.deb"))
	must.OK(t, err)
	run(".", append([]string{"cp"}, append(packages, given)...)...)
	run("..", "go", "build", "-o", filepath.Join(bin, "age-keygen"), "filippo.io/age/cmd/age-keygen")
	run(".", "cp", "testdata/package/systemctl", bin)
	ca := testenv.NewCA(t)
	cert, key := ca.Server(t)
	for name, text := range map[string][]byte{"ca.pem": ca.PEM(), "tls.crt": cert, "tls.key": key} {
		must.OK(t, os.WriteFile(filepath.Join(given, name), text, 0o600))
	}

	blocks := blocksOf(t, "../docs/operate/first-day.md", "bash")
	if len(blocks) != 10 {
		t.Fatalf("docs/operate/first-day.md has %d blocks of the walk, and this test knows 10", len(blocks))
	}
	var script strings.Builder
	script.WriteString(`set -e
await() { for _ in $(seq 600); do if "$@" >/dev/null 2>&1; then return; fi; sleep 0.3; done; echo "never: $*"; "$@" || true; tail -n 20 /var/log/*.journal; exit 1; }
finds() { "${@:2}" | grep -q "$1"; }
`)
	for i, block := range blocks {
		if i < len(blocks)-1 {
			fmt.Fprintf(&script, "echo '== block %d'\n%s", i, block)
			if i < len(waits) {
				script.WriteString(waits[i] + "\n")
			}
			continue
		}
		last := strings.TrimSpace(block)
		fmt.Fprintf(&script, "await finds 'AttestdDegraded.*WITNESS_SILENT.*\"state\":\"firing\"' %s\n%s\n", last, last)
		fmt.Fprintf(&script, "%sawait finds '\"alerts\":\\[\\]' %s\necho the alert has ended\n", blocks[5], last)
	}
	must.OK(t, os.WriteFile(filepath.Join(given, "walk"), []byte(script.String()), 0o600))
	root, err := filepath.Abs("testdata/package/root")
	must.OK(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute) // behind the builds
	defer cancel()
	cmd := exec.CommandContext(ctx, testenv.Path(t, "unshare"), "--mount", "--net", "--pid", "--fork", "--kill-child", "bash", root, work, "walk")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, time.Minute
	err = cmd.Run()
	if text := out.String(); err != nil || !strings.Contains(text, "the alert has ended") || !strings.Contains(text, ": valid, ") {
		t.Errorf("%v\n%s", err, text)
	}
}
