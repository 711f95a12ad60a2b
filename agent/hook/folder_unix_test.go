//go:build unix

package hook_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gofrs/flock"

	"attestd/agent/hook"
	"attestd/internal/notary"
)

// While the service can be reached, each event is recorded once, whatever has become of the folder
// of unsent records: a lock that another process never gives back, a pipe at the place of a file,
// no room, or no folder at all. The user is informed, and nothing is refused. With or without a key
// of the agent.
func TestEventsAreRecordedWithoutTheFolder(t *testing.T) {
	t.Parallel()
	pipe := func(name string) func(t *testing.T, h *hook.Hook) {
		return func(t *testing.T, h *hook.Hook) {
			path := filepath.Join(h.Spool.Dir(), name)
			_ = os.RemoveAll(path)
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	locked := func(folder func(h *hook.Hook) string, name string) func(t *testing.T, h *hook.Hook) {
		return func(t *testing.T, h *hook.Hook) {
			if err := os.MkdirAll(folder(h), 0o700); err != nil {
				t.Fatal(err)
			}
			lock := flock.New(filepath.Join(folder(h), name))
			if err := lock.Lock(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { lock.Unlock() })
		}
	}
	inSpool, inEnds := func(h *hook.Hook) string { return h.Spool.Dir() }, func(h *hook.Hook) string { return h.Ends }
	for name, breakFolder := range map[string]func(t *testing.T, h *hook.Hook){
		"locked":             locked(inSpool, "add.lock"),
		"ends locked":        locked(inEnds, "lock"),
		"a pipe as queue":    pipe("queue"),
		"a pipe as sessions": pipe("sessions"),
		"a pipe as ends": func(t *testing.T, h *hook.Hook) {
			if err := syscall.Mkfifo(h.Ends, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"full": func(_ *testing.T, h *hook.Hook) { h.Spool.Limit = 1 },
		"none": func(_ *testing.T, h *hook.Hook) { h.Spool, h.Ends = nil, "" },
	} {
		for _, signs := range []bool{false, true} {
			t.Run(name+map[bool]string{false: "", true: ", signed"}[signs], func(t *testing.T) {
				t.Parallel()
				n, s := notary.New(t), startServer(t)
				start, _ := processes(t, n)
				process := func() *hook.Hook { // each event is another process, with one folder
					h := start()
					if !signs {
						ends := h.Ends
						queue := h.Spool
						h = s.hook(t)
						h.Ends, h.Spool = ends, queue
					}
					if h.Spool != nil {
						h.Spool.Patience = hook.Patience / 10
					}
					h.FailClosed = true
					return h
				}
				breakFolder(t, process())
				told := false
				for _, body := range [][]byte{event("PreToolUse", "1", ""), event("PostToolUse", "1", ""), ended} {
					h := process()
					if name == "full" || name == "none" {
						breakFolder(t, h)
					}
					a, err := h.Answer(t.Context(), body)
					if err != nil || a.Denied != "" {
						t.Errorf("%s: denied %q, %v", body, a.Denied, err)
					}
					told = told || strings.Contains(string(a.Output), `{"systemMessage":"attestd cannot use its folder on this machine`)
				}
				if signs {
					if n.Appends != 3 {
						t.Errorf("%d events are recorded, want 3", n.Appends)
					}
				} else {
					s.recorded(t, "tool.requested 1", "tool.completed 1", "session.ended ")
				}
				// While the service answers, only an agent that signs needs the spool.
				if needed := signs && name != "none" || strings.Contains(name, "ends"); needed && !told {
					t.Error("the user is not told")
				}
			})
		}
	}
}
