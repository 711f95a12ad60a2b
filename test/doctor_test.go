package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// Where nothing is wrong, the doctor has no warning, with and without a running server.
func TestDoctorFindsNothingWrong(t *testing.T) {
	t.Parallel()
	i := install(t)
	flags := i.flags("--tls-cert", i.cert, "--tls-key", i.certKey, "--base-url", "https://attest.example.com")
	d := diagnose(t, flags...)
	if d.status != 0 || d.State != "ok" || d.Form != "attestd doctor 1" || d.Database != i.db || len(d.Findings) != 24 {
		t.Errorf("%d findings: %s", len(d.Findings), d.all)
	}
	d.finds(t, "chains", "ok", "3 logs with 8 records verify")
	d.finds(t, "pages", "ok", "every page")
	d.finds(t, "filesystem", "ok", "no network file system")
	d.finds(t, "backups", "ok", "read back, restored and verified")
	d.finds(t, "server", "ok", "no server")
	d.finds(t, "readiness", "skipped", "no server runs")
	d = diagnose(t, append(flags, "--quick", "--skip", "tls,listen")...)
	d.finds(t, "chains", "skipped", "--quick")
	d.finds(t, "tables", "skipped", "--quick")
	d.finds(t, "pages", "skipped", "--quick")
	d.finds(t, "listen", "skipped", "--skip")

	s := serve(t, i.db, i.flags()...)
	d = diagnose(t, flags...)
	if d.status != 0 || d.State != "ok" {
		t.Errorf("beside a server: %q", d.wrong())
	}
	d.finds(t, "server", "ok", fmt.Sprintf("process %d, ", s.cmd.Process.Pid))
	d.finds(t, "readiness", "ok", "the server says: ready")
	d.finds(t, "listen", "ok", s.URL[len("http://"):])
	d.finds(t, "locks", "ok", "locked by the server")
	d.finds(t, "pages", "skipped", "checkpoints of the server")
	d.finds(t, "chains", "ok", "records verify")

	// for people: a line for each check, and what they are together
	r := command(t, append([]string{"doctor"}, flags...)...)
	lines := strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n")
	if r.status != 0 || len(lines) != 25 || !strings.HasPrefix(lines[0], "ok       settings ") || lines[24] != "21 ok, 0 warn, 0 fail, 3 skipped" {
		t.Errorf("exit status %d: %s", r.status, r.all)
	}
	exits(t, 2, `there is no check "pulse"`, append([]string{"doctor", "--skip", "pulse"}, flags...)...)
}

// The files of another user, which the server of the database's owner could not use.
func TestDoctorFindsFilesOfOtherUsers(t *testing.T) {
	testenv.Needs(t, testenv.Root)
	t.Parallel()
	i := install(t)
	must.OK(t, os.Chown(i.db, 65534, 65534))
	d := diagnose(t, i.flags("--quick")...)
	d.finds(t, "permissions", "fail", "belongs to user 0")
	must.OK(t, filepath.WalkDir(filepath.Dir(i.db), func(path string, _ os.DirEntry, err error) error {
		if err == nil {
			err = os.Chown(path, 65534, 65534)
		}
		return err
	}))
	d = diagnose(t, i.flags("--quick")...)
	d.finds(t, "permissions", "ok", "")
}

// A disk that has no room for a copy of the database is no place for backups and restores.
func TestDoctorFindsADiskWithoutRoomForACopy(t *testing.T) {
	t.Parallel()
	i := install(t)
	wal := i.db + "-wal"
	must.OK(t, os.WriteFile(wal, nil, 0o600))
	if err := os.Truncate(wal, 1<<43); err != nil { // takes no room itself
		t.Skipf("the file system has no files with holes of this size: %v", err)
	}
	d := diagnose(t, i.flags("--quick")...)
	d.finds(t, "space", "warn", "too little for a copy")
}

// The limit of open files is that of the process that asks.
func TestDoctorFindsFewOpenFiles(t *testing.T) {
	t.Parallel()
	i := install(t)
	program, err := binary(t)
	must.OK(t, err)
	testenv.Needs(t, testenv.Program("sh"))
	script := append([]string{"-c", `ulimit -n 200; exec "$0" doctor --json --quick "$@"`, program}, i.flags()...)
	out, _ := exec.CommandContext(t.Context(), "sh", script...).Output()
	d := diagnosis{ran: ran{stdout: string(out), all: string(out), status: 9}}
	d.parse(t)
	d.finds(t, "limits", "warn", "may open 200 files")
}

// What is printed has no secret, and no character of a path or a file that a terminal would obey.
func TestDoctorPrintsNoSecretAndNoEscapes(t *testing.T) {
	t.Parallel()
	i := install(t)
	odd := filepath.Join(i.dir, "a\x1b[31mb")
	must.OK(t, os.Rename(filepath.Dir(i.db), odd))
	i.db = filepath.Join(odd, "attestd.db")
	key, err := os.ReadFile(i.masterKey)
	must.OK(t, err)
	token := filepath.Join(i.dir, "token")
	must.OK(t, os.WriteFile(token, []byte("a-token-that-nobody-sees"), 0o600))
	must.OK(t, os.WriteFile(theBackup(t, &i, ".json"), []byte("\x1b[2J"), 0o600))
	for _, args := range [][]string{{"doctor"}, {"doctor", "--json"}} {
		r := command(t, append(args, i.flags("--registration", "token", "--registration-token-file", token)...)...)
		for _, secret := range []string{strings.TrimSpace(string(key)), "a-token-that", i.apiKey} {
			if strings.Contains(r.all, secret) {
				t.Errorf("%q prints %q", args, secret)
			}
		}
		if strings.Contains(r.all, "\x1b") || !strings.Contains(r.all, "31mb") {
			t.Errorf("%q prints %q", args, r.all)
		}
	}
}

// A socket of another program, or one without an answer, is reported, and no check waits for it.
func TestDoctorFindsAServerThatDoesNotSay(t *testing.T) {
	t.Parallel()
	i := install(t)
	l, err := net.Listen("unix", i.db+".sock")
	if err != nil {
		t.Skipf("no socket here: %v", err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"))
			_ = c.Close()
		}
	}()
	d := diagnose(t, i.flags("--quick")...)
	d.finds(t, "server", "warn", "does not say how it is")
	d.finds(t, "readiness", "skipped", "the server does not say")
	d.finds(t, "locks", "fail", "does not have this file open")
}

// Neither the doctor nor attestd config waits for who writes a pipe that a setting names as a file,
// nor reads from it what is for the server.
func TestDoctorReadsNoPipes(t *testing.T) {
	t.Parallel()
	testenv.Needs(t, testenv.Program("mkfifo"))
	i := install(t)
	pipe := filepath.Join(i.dir, "pipe")
	must.OK(t, exec.CommandContext(t.Context(), "mkfifo", "-m", "600", pipe).Run())
	for _, flags := range [][]string{{"--master-key-file", pipe}, {"--ca-file", pipe}, {"--tls-cert", i.cert, "--tls-key", pipe},
		{"--tls-cert", pipe, "--tls-key", i.certKey}, {"--tls-cert", i.cert, "--tls-key", i.certKey, "--tls-client-ca", pipe},
		{"--cosign-for", pipe}, {"--backup-identity", pipe, "--backup-recipient", "age1"}, {"--config", pipe},
		{"--export-to", "https", "--export-address", "https://127.0.0.1:1/", "--export-token-file", pipe},
		{"--acme-domain", "attest.example.com", "--acme-ca", pipe}} {
		exits(t, 2, pipe+" is", append([]string{"doctor", "--quick", "--db", i.db, "--backup-to", i.backups}, flags...)...)
		exits(t, 2, pipe+" is", append([]string{"config", "--check", "--db", i.db, "--backup-to", i.backups}, flags...)...)
	}
}

// The report for programs has the members that docs/operate/doctor.md names, and no others.
func TestDoctorReportIsAsDocumented(t *testing.T) {
	t.Parallel()
	i := install(t)
	d := diagnose(t, i.flags("--quick", "--backup-to", "")...)
	var report map[string]json.RawMessage
	must.OK(t, json.Unmarshal([]byte(d.stdout), &report))
	var findings []map[string]string
	must.OK(t, json.Unmarshal(report["findings"], &findings))
	has := func(members []string, want ...string) {
		t.Helper()
		if slices.Sort(members); !slices.Equal(members, want) {
			t.Errorf("members %q, want %q", members, want)
		}
	}
	has(slices.Collect(maps.Keys(report)), "at", "database", "findings", "form", "program", "state")
	page, err := os.ReadFile("../docs/operate/doctor.md")
	must.OK(t, err)
	for _, f := range findings {
		if f["state"] == "warn" {
			has(slices.Collect(maps.Keys(f)), "check", "detail", "remedy", "state")
		} else {
			has(slices.Collect(maps.Keys(f)), "check", "detail", "state")
		}
		if !bytes.Contains(page, []byte("| `"+f["check"]+"` |")) {
			t.Errorf("docs/operate/doctor.md does not have the check %s", f["check"])
		}
	}
}
