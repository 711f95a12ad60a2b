// Package agentkey makes keys of agents on the machine where the agent runs, and enrols them.
//
// A key is written to a file before it is enrolled, under the name of the file and ".new", so that
// a process that is killed loses none: the next one goes on with it. A file without that ending has
// a key that is enrolled, or one that [New] made.
package agentkey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"attestd/sdk/attestd"
)

// newAs ends the name of the file of a key that may not be enrolled yet.
const newAs = ".new"

// ErrEnrolled reports that the file has a key that is enrolled.
var ErrEnrolled = errors.New("this machine has an enrolled key of the agent already")

// New makes a key that is to be enrolled later.
func New(path, algorithm string) (*attestd.AgentKey, error) {
	key, err := attestd.NewAgentKey(algorithm)
	if err != nil {
		return nil, err
	}
	return key, attestd.AgentFile{Key: key}.Create(path)
}

// Enrolment is what a key is enrolled with.
type Enrolment struct {
	Path      string // of the file
	Algorithm string // of a key that is made
	URL       string
	SPIFFEID  string // of the agent
	AgentID   string
	// Client has the credential: an admin's, or an enrolment token.
	Client *attestd.Client
	Label  string
	Alarm  func(error)
}

// Enrol enrols the key in the file: one that [New] made, or else a new one. It returns its
// thumbprint.
func (e Enrolment) Enrol(ctx context.Context) (string, error) {
	present, err := attestd.ReadAgentFile(e.Path)
	switch {
	case err == nil && present.SPIFFEID != "":
		return present.Key.Thumbprint(), fmt.Errorf("%w: %s in %s", ErrEnrolled, present.Key.Thumbprint(), e.Path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	return e.enrol(ctx, attestd.AgentFile{Key: present.Key, SPIFFEID: e.SPIFFEID, URL: e.URL})
}

// Next enrols the key after the one in the file, which endorses it, and puts it into the file. The
// former key stays enrolled, because what it has signed may not be sent yet.
func (e Enrolment) Next(ctx context.Context) (former, next string, err error) {
	present, err := attestd.ReadAgentFile(e.Path)
	if err != nil {
		return "", "", err
	}
	who := present.Identity()
	who.Alarm = e.Alarm
	identity, err := attestd.NewIdentity(who)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w; enrol it first", e.Path, err)
	}
	if e.Client, err = attestd.New(attestd.Config{URL: present.URL, Credential: identity}); err != nil {
		return "", "", err
	}
	defer e.Client.Close()
	e.AgentID, e.SPIFFEID, e.URL = identity.AgentID(), present.SPIFFEID, present.URL
	former = present.Key.Thumbprint()
	next, err = e.enrol(ctx, attestd.AgentFile{SPIFFEID: present.SPIFFEID, URL: present.URL, Log: present.Log, Known: append(present.Known, former)})
	return former, next, err
}

// Unfinished returns the paths of the keys in a folder whose enrolment has not ended.
func Unfinished(folder string) []string {
	entries, _ := os.ReadDir(folder) // one that is not there has none
	var paths []string
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), newAs); ok {
			paths = append(paths, filepath.Join(folder, name))
		}
	}
	return paths
}

// Resume ends an enrolment whose answer was lost: if the server has enrolled the key that an
// earlier attempt has left next to path, it puts the key in place. done is false if there is no
// such key.
func Resume(ctx context.Context, path, url string) (thumbprint, spiffeID string, done bool, err error) {
	left, err := attestd.ReadAgentFile(path + newAs)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", false, nil
	}
	e := Enrolment{Path: path}
	if err != nil || left.URL != url || !e.signsIn(ctx, &left) {
		return "", "", false, err
	}
	return left.Key.Thumbprint(), left.SPIFFEID, true, e.place(left)
}

// enrol enrols the key of a file that an earlier attempt has left, or else this one, and puts it in
// place.
func (e Enrolment) enrol(ctx context.Context, made attestd.AgentFile) (string, error) {
	left, err := attestd.ReadAgentFile(e.Path + newAs)
	again := err == nil && left.SPIFFEID == made.SPIFFEID && left.URL == made.URL
	switch {
	case again:
		made = left
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	case made.Key == nil:
		if made.Key, err = attestd.NewAgentKey(e.Algorithm); err != nil {
			return "", err
		}
	}
	if !again {
		if err := made.Write(e.Path + newAs); err != nil {
			return "", err
		}
	}
	enrolled, err := e.Client.EnrolKey(ctx, e.AgentID, made.Key, attestd.NewEnrolledKey{Label: e.Label})
	if err != nil {
		if again && e.signsIn(ctx, &made) { // the earlier attempt was successful
			return made.Key.Thumbprint(), e.place(made)
		}
		if !again && attestd.NotRecorded(err) {
			_ = os.Remove(e.Path + newAs)
		}
		return "", err
	}
	made.Log = cmp.Or(made.Log, enrolled.Log)
	return made.Key.Thumbprint(), e.place(made)
}

// signsIn reports whether the key of a file is enrolled, and finds out its log.
func (e Enrolment) signsIn(ctx context.Context, f *attestd.AgentFile) bool {
	who := f.Identity()
	who.Alarm = func(error) {}
	identity, err := attestd.NewIdentity(who)
	if err != nil {
		return false
	}
	c, err := attestd.New(attestd.Config{URL: f.URL, Credential: identity})
	if err != nil {
		return false
	}
	defer c.Close()
	_, err = c.AgentKeys(ctx, identity.AgentID())
	f.Log = identity.Log()
	return err == nil
}

func (e Enrolment) place(made attestd.AgentFile) error {
	if err := made.Write(e.Path); err != nil { // it is synced
		return err
	}
	return os.Remove(e.Path + newAs)
}
