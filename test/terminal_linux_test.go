package test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// On a terminal, long work shows how far it is, and leaves no trace of that: the last thing on the
// line is its clearing, and standard output has the results alone.
func TestProgressOnATerminal(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	program, err := binary(t)
	must.OK(t, err)
	folder := t.TempDir()
	db := filepath.Join(folder, "acme.db")
	s := serve(t, db)
	c := s.register(t, "acme")
	for range 10 {
		c.call(t, 201, "POST", "/v1/attest", `{"agentId":"bot","actionType":"open","payload":"door"}`, nil)
	}
	must.OK(t, s.interrupt())

	for _, test := range []struct {
		args               []string
		out, shown, atLast string
	}{
		{[]string{"verify", "--db", db}, `^acme: valid, 10 records, chain root [0-9a-f]{64}\nacme \(control\): valid, [0-9]+ records, chain root [0-9a-f]{64}\nlog of the companies: valid, 2 records, chain root [0-9a-f]{64}\n$`, `records .*/1[0-9]\)`, ``},
		{[]string{"backup", filepath.Join(folder, "copy.db"), "--db", db}, `^$`, `copy .*B`, `backed up .* and verified the copy`},
		{[]string{"archive", "--company", "acme", "--before", "0s", "--out", filepath.Join(folder, "acme.ndjson"), "--db", db}, `^archived 10 records of actions and 2 of control of acme, `, `records .*/12\)`, ``},
		{[]string{"check", filepath.Join(folder, "acme.ndjson")}, `^holds, key not confirmed: anyone can make such lines\nwho: all agents of the company "acme"\n`, `check .*B`, `attestd: .* holds, key not confirmed: set --key or --policy`},
		{[]string{"restore", filepath.Join(folder, "copy.db"), "--db", db, "--force"}, `^$`, `verify .*/1[0-9]\)`, `restored .*`},
	} {
		t.Run(test.args[0], func(t *testing.T) {
			terminal, stderr := openTerminal(t)
			cmd := exec.Command(program, test.args...)
			cmd.Env = atHome(folder)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, stderr
			must.OK(t, cmd.Start())
			// ours; with the child's the last goes, and then reading ends with an error
			must.OK(t, stderr.Close())
			shown, _ := io.ReadAll(terminal)
			if err := cmd.Wait(); (err != nil) != (test.args[0] == "check") { // without a key
				t.Error(err)
			}
			if !regexp.MustCompile(test.out).MatchString(out.String()) {
				t.Errorf("standard output has %q", out.String())
			}
			if !regexp.MustCompile(test.shown).Match(shown) {
				t.Errorf("no progress in %q", shown)
			}
			lines := strings.Split(strings.TrimRight(string(shown), "\r\n"), "\r")
			if last := lines[len(lines)-1]; !regexp.MustCompile(`^ *` + test.atLast + `$`).MatchString(last) {
				t.Errorf("the terminal is left with %q", last)
			}
		})
	}
}

// openTerminal returns both ends of a pseudo-terminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		testenv.Missing(t, "no pseudo-terminal: "+err.Error())
	}
	t.Cleanup(func() { master.Close() })
	must.OK(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must.OK(t, err)
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	must.OK(t, err)
	return master, slave
}
