package test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// witnessKey returns the verifier key of a witness that does not exist (C2SP tlog-cosignature).
func witnessKey(name string) string {
	const cosignature = 4
	key := append([]byte{cosignature}, make([]byte, ed25519.PublicKeySize)...)
	id := sha256.Sum256(append([]byte(name+"\n"), key...))
	return fmt.Sprintf("%s+%x+%s", name, id[:4], base64.StdEncoding.EncodeToString(key))
}

// What a server knows is shown in its words. Each fault turns the line of its check.
func TestDoctorFindsFaultsWhileAServerRuns(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	t.Parallel()
	for _, fault := range []struct {
		name   string
		before func(*testing.T, *installation)
		serve  []string
		// after the start; may be nil
		does func(*testing.T, *installation, *service)
		// check, state and text
		found [][3]string
	}{
		{"little room", nil, []string{"--disk-floor", "1000TiB"}, nil, [][3]string{{"readiness", "fail", "the server says: DISK_LOW"}}},
		{"a record changed", func(t *testing.T, i *installation) {
			must.OK(t, os.Remove(i.db+".verified"))
			must.OK(t, storetest.Stranger(t, i.db, `DROP TRIGGER record_no_update`,
				`UPDATE record SET payload = replace(payload, '"door":1', '"door":2')`).Close())
		}, nil, nil, [][3]string{{"verification", "fail", "1 logs do not verify"}, {"readiness", "warn", "LOG_FAILED"}, {"chains", "fail", "acme, record 0"}}},
		{"a folder of backups for all", func(t *testing.T, i *installation) {
			removeManifest(t, i)
			must.OK(t, os.Chmod(i.backups, 0o707))
		}, nil, nil, [][3]string{{"backups", "warn", "the server says: 1 attempts failed"}}},
		{"an unreachable witness", nil, []string{"--witness", "http://127.0.0.1:1=" + witnessKey("witness.example.com")}, nil,
			[][3]string{{"witnesses", "warn", "witness.example.com cannot be asked"}, {"readiness", "warn", "WITNESS_SILENT"}}},
		{"an unreachable receiver", nil, []string{"--export-to", "https", "--export-address", "https://127.0.0.1:1/"}, nil,
			[][3]string{{"export", "warn", "deliveries failed"}}},
		{"no socket", nil, nil, func(t *testing.T, i *installation, _ *service) { must.OK(t, os.Remove(i.db+".sock")) },
			[][3]string{{"locks", "warn", "no server answers"}, {"readiness", "skipped", ""}}},
		{"another file in its place", nil, nil, func(t *testing.T, i *installation, _ *service) {
			must.OK(t, os.Rename(i.older, i.db))
			must.OK(t, os.Remove(i.db+"-wal"))
		}, [][3]string{{"locks", "fail", "moved or replaced"}, {"log", "fail", "deleted under the server"}, {"readiness", "fail", "FILE_CHANGED"},
			{"database", "fail", "not opened"}}},
		{"a guard away", nil, nil, func(t *testing.T, i *installation, _ *service) {
			must.OK(t, storetest.Stranger(t, i.db, `DROP TRIGGER record_no_update`).Close())
		}, [][3]string{{"guards", "fail", "record_no_update"}}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			if fault.before != nil {
				fault.before(t, &i)
			}
			args := []string{"--backup-to", i.backups}
			if fault.name == "a folder of backups for all" {
				args = []string{"--backup-to", ""} // what the server says is enough
			}
			s := serve(t, i.db, append(i.flags(), fault.serve...)...)
			if fault.does != nil {
				fault.does(t, &i, s)
			}
			args = append([]string{"--db", i.db, "--master-key-file", i.masterKey}, args...)
			var d diagnosis
			for _, want := range fault.found {
				d = until(t, want[0], want[1], want[2], append(args, quickUnless(want[0])...)...)
				d.finds(t, want[0], want[1], want[2])
			}
		})
	}
}

func quickUnless(check string) []string {
	if check == "chains" {
		return nil
	}
	return []string{"--quick"}
}

// The limits and the certificate are those of the server's process, and not of the doctor's.
func TestDoctorAsksForTheServersOwnLimits(t *testing.T) {
	t.Parallel()
	testenv.Needs(t, testenv.Program("sh"))
	i := install(t)
	program, err := binary(t)
	must.OK(t, err)
	args := []string{"-c", `ulimit -n 200; exec "$0" "$@"`, program, "serve", "--listen", "127.0.0.1:0", "--tls-cert", i.cert, "--tls-key", i.certKey}
	cmd := exec.Command("sh", append(args, i.flags()...)...)
	must.OK(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	d := until(t, "limits", "warn", "", i.flags("--quick")...)
	d.finds(t, "limits", "warn", "the server may open 200 files, so it has 136 connections and not 10000")
	d.finds(t, "tls", "ok", "the server says: the certificate in use ends at ")
}

// A doctor that runs while a server writes disturbs nothing: no write fails or is lost, the server
// goes on making its checkpoints, and its files are those that it would have without a doctor.
func TestDoctorLeavesTheServersFiles(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	t.Parallel()
	i := install(t)
	s := serve(t, i.db, i.flags("--rate-limits", "off", "--verify-every", "off")...)
	c := s.client(t, i.apiKey)
	content := func() map[string]string {
		t.Helper()
		is := map[string]string{}
		entries, err := os.ReadDir(filepath.Dir(i.db))
		must.OK(t, err)
		for _, e := range entries {
			// Readers note themselves in the log's index, and the server writes in its own time
			// what it has verified.
			text := []byte("changes beside a server")
			if e.Type().IsRegular() && !strings.HasSuffix(e.Name(), "-shm") && !strings.HasSuffix(e.Name(), ".verified") {
				text, err = os.ReadFile(filepath.Join(filepath.Dir(i.db), e.Name()))
				must.OK(t, err)
			}
			is[e.Name()] = string(text)
		}
		return is
	}
	body := `{"agentId":"bot","actionType":"open","payload":"` + strings.Repeat("x", 1<<14) + `"}`
	stop := make(chan struct{})
	var writing sync.WaitGroup
	var mu sync.Mutex
	appended := 0
	for range 4 {
		writing.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				status, answer, err := c.send("POST", "/v1/attest", body)
				if err != nil || status != 201 {
					t.Errorf("status %d, %v: %.200s", status, err, answer)
					return
				}
				mu.Lock()
				appended++
				enough := appended >= 3000 // what takes a slow machine long to look at
				mu.Unlock()
				if enough {
					return
				}
			}
		})
	}
	written := func() int {
		mu.Lock()
		defer mu.Unlock()
		return appended
	}
	for n := 0; n < 3 || written() < 100 && !t.Failed(); n++ {
		d := diagnose(t, i.flags()...)
		if d.status != 0 {
			t.Errorf("beside writes: %q", d.wrong())
		}
	}
	close(stop)
	writing.Wait()
	// The log is no longer than between a few checkpoints, however much was written. Each record is
	// written twice and more, and a reader delays a checkpoint for as long as it reads.
	most := max(16<<20, int64(appended)<<14/2)
	if info, err := os.Stat(i.db + "-wal"); err != nil || info.Size() > most || appended < 100 {
		t.Errorf("after %d records: %v, %v", appended, info, err)
	}
	var known struct{ Length int }
	c.call(t, 200, "GET", "/v1/verify", "", &known)
	// The server notes in its own time how far it has watched the calls: then it is still.
	await(t, "the doctor changes nothing", func() bool {
		was := content()
		d := diagnose(t, i.flags()...)
		is := content()
		if len(was) != len(is) || d.status != 0 {
			t.Fatalf("the folder had %d files and has %d; %q", len(was), len(is), d.wrong())
		}
		return maps.Equal(was, is)
	})
	must.OK(t, s.interrupt())
	if log := s.log.String(); strings.Contains(log, "level=ERROR") || strings.Contains(log, "FILE_CHANGED") {
		t.Errorf("the server's log: %s", tail(log, 2000))
	}
	atRest := func() (is [2][]byte) {
		t.Helper()
		for n, suffix := range []string{"", ".verified"} {
			var err error
			is[n], err = os.ReadFile(i.db + suffix)
			must.OK(t, err)
		}
		return is
	}
	before := atRest()
	if d := diagnose(t, i.flags()...); d.status != 0 {
		t.Errorf("without the server: %q", d.wrong())
	}
	if after := atRest(); !bytes.Equal(before[0], after[0]) || !bytes.Equal(before[1], after[1]) {
		t.Error("the database at rest was changed, or what is known of its verification")
	}
	if runtime.GOOS == "linux" { // a server can start at once
		serve(t, i.db, i.flags()...)
	}
}
