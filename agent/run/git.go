package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// commit is the payload of git.commit.
type commit struct {
	Source      string `json:"source"`
	RunID       string `json:"runId"`
	Commit      string `json:"commit"`
	Author      string `json:"author"`
	CommittedAt string `json:"committedAt"`
	Subject     string `json:"subject"`
}

// repository is the state of a git repository at the start of a run.
type repository struct {
	dir     string
	objects string   // folder of its objects
	known   []string // reachable commits at that time
}

func openRepository(ctx context.Context, dir string) (*repository, error) {
	r := &repository{dir: dir}
	path, err := r.git(ctx, "", "rev-parse", "--git-path", "objects")
	if err != nil {
		return nil, err
	}
	if r.objects = strings.TrimSuffix(path, "\n"); !filepath.IsAbs(r.objects) {
		r.objects = filepath.Join(dir, r.objects)
	}
	// Commits reachable from a ref or a reflog were made before the run.
	out, err := r.git(ctx, "", "rev-list", "--no-walk", "--all", "--reflog")
	if err != nil {
		return nil, err
	}
	r.known = strings.Fields(out)
	return r, nil
}

// since returns the commits added to the repository since it was opened, the oldest first: also
// those that an amend or a reset has left unreachable, those that were pushed, and those to which
// nothing ever led. It omits fetched commits that are older than start. With an error it returns
// those that it has found.
func (r *repository) since(ctx context.Context, start time.Time) ([]commit, error) {
	added, err := r.looseCommits(ctx, start)
	if err != nil {
		return nil, err
	}
	var tips strings.Builder // of the commits that are new
	for _, hash := range added {
		tips.WriteString(hash + "\n")
	}
	for _, hash := range r.known {
		tips.WriteString("^" + hash + "\n")
	}
	const format = "--format=%H%x00%an <%ae>%x00%cI%x00%ct%x00%s"
	out, err := r.git(ctx, tips.String(), "rev-list", "--topo-order", "--reverse", "--all", "--reflog", "--encoding=UTF-8", format, "--stdin")
	if err != nil {
		return nil, err
	}
	fetched, err := r.fetched(ctx)
	if err != nil {
		return nil, err
	}
	for _, hash := range fetched {
		tips.WriteString("^" + hash + "\n")
	}
	own, err := r.git(ctx, tips.String(), "rev-list", "--all", "--reflog", "--stdin")
	if err != nil {
		return nil, err
	}
	local := map[string]bool{}
	for _, hash := range strings.Fields(own) {
		local[hash] = true
	}
	var commits []commit
	announced := "" // by the line that precedes each
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if hash, is := strings.CutPrefix(line, "commit "); is && announced == "" {
			announced = hash
			continue
		}
		fields := strings.Split(line, "\x00")
		var seconds int64
		if len(fields) != 5 || fields[0] != announced {
			return commits, fmt.Errorf("git: commit %s cannot be read, so it and later ones are not attested: %q", announced, line)
		}
		if _, err := fmt.Sscan(fields[3], &seconds); err != nil {
			return commits, fmt.Errorf("git: commit %s: %w", announced, err)
		}
		if announced = ""; local[fields[0]] || seconds >= start.Unix() {
			commits = append(commits, commit{Commit: fields[0], Author: fields[1], CommittedAt: fields[2], Subject: fields[4]})
		}
	}
	if announced != "" {
		return commits, fmt.Errorf("git: commit %s cannot be read, so it is not attested", announced)
	}
	return commits, nil
}

// looseCommits returns the commits whose objects were written since start and are in no pack. Git
// writes each new commit so, whatever refs and reflogs say of it later.
func (r *repository) looseCommits(ctx context.Context, start time.Time) ([]string, error) {
	folders, err := os.ReadDir(r.objects)
	if err != nil {
		return nil, fmt.Errorf("git: %w", err)
	}
	since := start.Truncate(time.Second) // some file systems have no finer times
	var written strings.Builder
	for _, folder := range folders {
		if len(folder.Name()) != 2 {
			continue
		}
		files, err := os.ReadDir(filepath.Join(r.objects, folder.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // git gc has packed all of it
			return nil, fmt.Errorf("git: %w", err)
		}
		for _, file := range files {
			info, err := file.Info()
			if err == nil && info.Mode().IsRegular() && !info.ModTime().Before(since) && !strings.HasPrefix(file.Name(), "tmp_") {
				written.WriteString(folder.Name() + file.Name() + "\n")
			}
		}
	}
	if written.Len() == 0 {
		return nil, nil
	}
	out, err := r.git(ctx, written.String(), "cat-file", "--batch-check=%(objecttype) %(objectname)")
	if err != nil {
		return nil, err
	}
	var commits []string
	for line := range strings.Lines(out) {
		if hash, is := strings.CutPrefix(line, "commit "); is {
			commits = append(commits, strings.TrimSuffix(hash, "\n"))
		}
	}
	return commits, nil
}

// fetched returns what remote-tracking branches came to by anything but a push: the tips of what
// others have made. Of a branch without a reflog it is all.
func (r *repository) fetched(ctx context.Context) (tips []string, err error) {
	refs, err := r.git(ctx, "", "for-each-ref", "--format=%(refname)%00%(objectname)", "refs/remotes")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(refs) {
		ref, tip, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\x00")
		log, err := r.git(ctx, "", "log", "--walk-reflogs", "--format=%H%x00%gs", ref, "--")
		if err != nil {
			return nil, err
		}
		if log == "" {
			tips = append(tips, tip)
		}
		for entry := range strings.Lines(log) {
			hash, why, _ := strings.Cut(strings.TrimSuffix(entry, "\n"), "\x00")
			if why != "update by push" {
				tips = append(tips, hash)
			}
		}
	}
	return tips, nil
}

// git runs git and returns its output. It prevents locks and programs from the repository's
// configuration, and what makes git show other commits than there are: replacements, grafts and
// another encoding.
func (r *repository) git(ctx context.Context, input string, args ...string) (string, error) {
	options := []string{"--no-optional-locks", "--no-replace-objects", "-c", "core.fsmonitor=false", "-c", "log.showSignature=false",
		"-c", "i18n.logOutputEncoding=UTF-8", "-C", r.dir}
	cmd := exec.CommandContext(ctx, "git", append(options, args...)...)
	cmd.Env = append(os.Environ(), "GIT_GRAFT_FILE="+os.DevNull)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("git %s: %s", args[0], strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("git: %w", err)
	}
	return string(out), nil
}
