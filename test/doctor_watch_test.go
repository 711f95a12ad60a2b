package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// The units and the line of cron in docs/operate/doctor.md are silent while nothing is wrong, and
// not otherwise.
func TestDoctorIsRunAsDocumented(t *testing.T) {
	t.Parallel()
	testenv.Needs(t, testenv.Program("sh"))
	i := install(t)
	program, err := binary(t)
	must.OK(t, err)
	bin := filepath.Join(i.dir, "attestd")
	must.OK(t, os.Symlink(program, bin))
	here := strings.NewReplacer("/usr/bin/attestd", bin, "/var/lib/attestd/attestd.db", i.db, "%d/master.key", i.masterKey).Replace
	cron := blocksOf(t, "../docs/operate/doctor.md", "cron")
	var units []string
	for _, unit := range blocksOf(t, "../docs/operate/doctor.md", "ini") {
		if strings.Contains(unit, "Check attestd") {
			units = append(units, here(unit))
		}
	}
	if len(cron) != 1 || len(units) != 2 {
		t.Fatalf("%d lines of cron and %d units", len(cron), len(units))
	}
	line := strings.SplitN(strings.TrimSpace(here(cron[0])), " ", 7)
	if line[5] != "attestd" {
		t.Fatalf("the user of %q", line)
	}
	started := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(units[0])
	run := func(script string) (string, int) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		// the settings of /etc/default/attestd
		cmd.Env = append(os.Environ(), "PATH="+i.dir+":"+os.Getenv("PATH"), "ATTESTD_BACKUP_TO="+i.backups)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, status := run(line[6]); out != "" || status != 0 {
		t.Errorf("cron: exit status %d, %q", status, out)
	}
	if out, status := run(started[1]); status != 0 {
		t.Errorf("the unit: exit status %d, %q", status, out)
	}
	must.OK(t, os.Remove(i.db+".heads"))
	if out, status := run(line[6]); !strings.Contains(out, "no head file") || status != 0 {
		t.Errorf("cron: exit status %d, %q", status, out)
	}
	if out, status := run(started[1]); status != 9 {
		t.Errorf("the unit: exit status %d, %q", status, out)
	}

	testenv.Needs(t, testenv.Program("systemd-analyze"))
	dir := t.TempDir()
	for n, suffix := range []string{".service", ".timer"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, "attestd-doctor"+suffix), []byte(units[n]), 0o600))
	}
	verify := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", filepath.Join(dir, "attestd-doctor.service"), filepath.Join(dir, "attestd-doctor.timer"))
	if out, err := verify.CombinedOutput(); err != nil || strings.Contains(string(out), "attestd-doctor") {
		t.Errorf("systemd-analyze verify: %v, %s", err, out)
	}
}
