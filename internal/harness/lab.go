// Package harness is shared by tests, attacks and benchmarks of a built attestd. It builds, starts
// and stops attestd on loopback, sends requests, and measures the process.
package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Patience bounds every wait for a process or a response. A longer wait means that it hangs.
const Patience = 30 * time.Second

// Lab is a temporary folder with the built binary.
type Lab struct {
	Dir    string
	binary string
}

// NewLab builds attestd as the README does. It MUST be run inside the source tree. Close removes
// the folder.
func NewLab(ctx context.Context) (*Lab, error) {
	dir, err := os.MkdirTemp("", "attestd-lab-")
	if err != nil {
		return nil, err
	}
	l := &Lab{Dir: dir, binary: filepath.Join(dir, "attestd")}
	if err := Build(ctx, l.binary); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// builtBefore names an attestd that was built from this source tree before, which all that build
// one use then: to link it takes seconds.
const builtBefore = "ATTESTD_TEST_BINARY"

// Build builds attestd into a file, with the dependencies of its own module, also for a caller in
// another module. With $ATTESTD_TEST_BINARY it links to that instead.
func Build(ctx context.Context, binary string) error {
	if built := os.Getenv(builtBefore); built != "" {
		// no copy: what starts meanwhile could hold it open for writing, and then it does not run
		return os.Symlink(built, binary)
	}
	root, err := Root(ctx)
	if err != nil {
		return err
	}
	return build(ctx, root, binary, ".")
}

// BuildSmall builds attestd-agent into a file, stripped as releases have it.
func BuildSmall(ctx context.Context, binary string) error {
	root, err := Root(ctx)
	if err != nil {
		return err
	}
	return build(ctx, root, binary, "./cmd/attestd-agent", "-ldflags=-s -w")
}

// BuildProfile builds attestd with the handler of net/http/pprof, which answers where the
// environment's ATTESTD_PROFILE says.
func BuildProfile(ctx context.Context, binary string) error {
	root, err := Root(ctx)
	if err != nil {
		return err
	}
	return build(ctx, root, binary, ".", "-tags", "profile")
}

// BuildRelease builds the attestd of a source tree as a release.
func BuildRelease(ctx context.Context, source, binary, release string) error {
	return build(ctx, source, binary, ".", "-ldflags", "-X main.release="+release)
}

func build(ctx context.Context, source, binary, program string, flags ...string) error {
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"-C", source, "build", "-o", binary}, flags, []string{program})...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as releases are built
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build attestd of %s: %w\n%s", source, err, out)
	}
	return nil
}

// Root returns the root of the source tree that contains the working directory.
func Root(ctx context.Context) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "attestd").Output()
	if err != nil {
		return "", fmt.Errorf("find the source tree, inside which this must be run: %w", err)
	}
	return strings.TrimSpace(string(root)), nil
}

// Binary returns the path of the built attestd.
func (l *Lab) Binary() string { return l.binary }

// Close removes the folder.
func (l *Lab) Close() error { return os.RemoveAll(l.Dir) }

// Folder creates a new private folder.
func (l *Lab) Folder() (string, error) { return os.MkdirTemp(l.Dir, "") }

// Verdict is a line of `attestd verify --json`.
type Verdict struct {
	CompanyID  string
	Log        string // "" for the actions
	Valid      bool
	Records    int64
	MerkleRoot string
}

// Verify runs `attestd verify` on a file, and returns the verdicts on the action logs by company.
// An error means that the file did not verify; it has the output.
func (l *Lab) Verify(ctx context.Context, db string) (map[string]Verdict, error) {
	cmd := exec.CommandContext(ctx, l.binary, "verify", "--db", db, "--json")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("attestd verify: %w: %s%s", err, stdout.String(), stderr.String())
	}
	verdicts := map[string]Verdict{}
	for lines := json.NewDecoder(&stdout); lines.More(); {
		var v Verdict
		if err := lines.Decode(&v); err != nil {
			return nil, fmt.Errorf("attestd verify --json: %w", err)
		}
		if !v.Valid {
			return nil, fmt.Errorf("attestd verify ends well, and says that %s is not valid", v.CompanyID)
		}
		if v.Log == "" {
			verdicts[v.CompanyID] = v
		}
	}
	return verdicts, nil
}
