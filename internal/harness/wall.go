package harness

import (
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// wallSource is a file of package time: how far the wall clock of a process is from the machine's.
//
//go:embed wall.go.txt
var wallSource string

// readsClock is the statement of time.Now that reads both clocks.
const readsClock = "sec, nsec, mono := runtimeNow()\n"

// BuildWithWall builds attestd into a file, from its own source and a package time whose wall clock
// a [Wall] sets. All else of a time is as ever: it has a monotonic reading, which does not leap.
// dir is for the changed files of the standard library.
func BuildWithWall(ctx context.Context, binary, dir string) error {
	root, err := Root(ctx)
	if err != nil {
		return err
	}
	goRoot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	folder := filepath.Join(strings.TrimSpace(string(goRoot)), "src", "time")
	text, err := os.ReadFile(filepath.Join(folder, "time.go"))
	if err != nil {
		return err
	}
	before, after, found := strings.Cut(string(text), readsClock)
	if !found || strings.Contains(after, readsClock) {
		return fmt.Errorf("%s reads the clock in another way than %q", folder, readsClock)
	}
	replaced := make(map[string]string)
	for name, text := range map[string]string{
		"time.go":     before + strings.TrimSuffix(readsClock, "\n") + "; sec += wallAhead()\n" + after,
		"testwall.go": wallSource,
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		replaced[filepath.Join(folder, name)] = file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "-C", root, "build", "-overlay", list, "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build attestd with another package time: %w\n%s", err, out)
	}
	return nil
}

// Wall sets the wall clock of processes whose binary BuildWithWall has built.
type Wall struct{ file *os.File }

// NewWall creates the file through which the clock is set. Close closes it.
func NewWall(path string) (*Wall, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	w := &Wall{file}
	if err := w.SetAhead(0); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Env is the environment variable of the processes.
func (w *Wall) Env() string { return "ATTESTD_TEST_WALL=" + w.file.Name() }

// SetAhead sets by how much the processes' wall clocks are ahead of the machine's, in whole
// seconds.
func (w *Wall) SetAhead(by time.Duration) error {
	_, err := w.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(by/time.Second))), 0)
	return err
}

// Close closes the file. Processes go on with the clock as it is.
func (w *Wall) Close() error { return w.file.Close() }
