package server_test

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"attestd/internal/testenv"
)

// A tunnel or proxy that another user of this machine runs differs from a local caller only in the
// owner of its socket.
func TestRecoverKeyRefusesOtherUsers(t *testing.T) {
	t.Parallel()
	testenv.Needs(t, testenv.Plain, testenv.Root)
	curl := testenv.Path(t, "curl")
	s := start(t)
	acme := s.company(t, "acme")
	const nobody = 65534
	for uid, answered := range map[uint32]bool{0: true, nobody: false} {
		cmd := exec.CommandContext(t.Context(), curl, "--silent", "--data", `{"companyId":"acme"}`, s.url+"/v1/recover-key")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		cmd.Dir = "/"
		out, err := cmd.Output()
		if err != nil || strings.Contains(string(out), acme.credential) != answered || !answered && !strings.Contains(string(out), "server's own user") {
			t.Errorf("user %d: %v\n%s", uid, err, out)
		}
	}
}
