package backups_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin/backups"
)

// Whatever the service of a bucket does wrong, the backup fails, what was written of it does not
// count, and no good backup goes.
func TestFaultOfBucketRemovesNoBackup(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	l := serve(t)
	l.attest(t, 20)
	isData := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, ".db") }
	isManifest := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, ".json") }
	answer := func(method string, which func(*http.Request) bool, status int, code string) func(*s3) {
		return func(f *s3) {
			f.fault = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != method || !which(r) {
					return false
				}
				fail(w, status, code)
				return true
			}
		}
	}
	serving := func(which string, change func([]byte) []byte) func(*s3) {
		return func(f *s3) {
			f.served = func(key string, body []byte) []byte {
				if strings.HasSuffix(key, which) {
					return change(body)
				}
				return body
			}
		}
	}
	for name, c := range map[string]struct {
		locked bool
		fault  func(*s3)
	}{
		"uploads are forbidden":   {fault: answer("PUT", isData, 403, "AccessDenied")},
		"manifests are forbidden": {fault: answer("PUT", isManifest, 403, "AccessDenied")},
		"downloads are forbidden": {fault: answer("GET", isData, 403, "AccessDenied")},
		"the bucket is gone":      {fault: answer("HEAD", func(*http.Request) bool { return true }, 404, "NoSuchBucket")},
		"lists are forbidden":     {fault: answer("GET", func(r *http.Request) bool { return r.URL.Query().Has("list-type") }, 403, "AccessDenied")},
		"a bit differs":           {fault: serving(".db", func(b []byte) []byte { b[len(b)/2] ^= 1; return b })},
		"the end is cut off":      {fault: serving(".db", func(b []byte) []byte { return b[:len(b)-1] })},
		"there is more":           {fault: serving(".db", func(b []byte) []byte { return append(b, 0) })},
		"it is empty":             {fault: serving(".db", func([]byte) []byte { return nil })},
		"the manifest differs":    {fault: serving(".json", func(b []byte) []byte { return bytes.Replace(b, []byte("records"), []byte("Records"), 1) })},
		"an upload is cut": {fault: func(f *s3) {
			f.fault = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == "PUT" && isData(r) {
					panic(http.ErrAbortHandler)
				}
				return false
			}
		}},
		"the service takes nothing": {fault: answer("PUT", isData, 507, "InsufficientStorage")},
		"object lock is denied":     {locked: true, fault: answer("PUT", isData, 403, "AccessDenied")},
		"a retention is not set": {locked: true, fault: func(f *s3) {
			f.fault = func(_ http.ResponseWriter, r *http.Request) bool {
				r.Header.Del("X-Amz-Object-Lock-Mode")
				return false
			}
		}},
		"a retention is too short": {locked: true, fault: func(f *s3) {
			f.fault = func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("X-Amz-Object-Lock-Mode") != "" {
					r.Header.Set("X-Amz-Object-Lock-Retain-Until-Date", time.Now().Add(time.Minute).UTC().Format(time.RFC3339))
				}
				return false
			}
		}},
		"a retention cannot be seen": {locked: true, fault: answer("GET", func(r *http.Request) bool { return r.URL.Query().Has("retention") }, 403, "AccessDenied")},
	} {
		f := newS3(t, c.locked)
		place := f.place(t, func(o *backups.BucketOptions) { o.LockFor = time.Hour })
		first, err := l.make(t, place, 0, 1)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f.mu.Lock()
		c.fault(f)
		f.mu.Unlock()
		if _, err := l.make(t, place, 1, 1); err == nil {
			t.Errorf("%s: done", name)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
		f.mu.Lock()
		f.fault, f.served = nil, nil
		f.mu.Unlock()
		if names := done(t, place); !slices.Equal(names, []string{first.Name}) {
			t.Errorf("%s: done: %v", name, names)
		}
		f.mu.Lock()
		if _, o := f.find("prefix/"+first.Name, ""); o == nil || fmt.Sprintf("%x", sha256.Sum256(o.body)) != first.SHA256 {
			t.Errorf("%s: the first backup has changed", name)
		}
		f.mu.Unlock()
		l.nothingLeft(t)
	}
}

// A service that refuses for a moment is asked again.
func TestBusyServiceIsAskedAgain(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	l, f := serve(t), newS3(t, false)
	refused := 0
	f.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == "PUT" && refused == 0 {
			refused++
			fail(w, 503, "SlowDown")
			return true
		}
		return false
	}
	if _, err := l.make(t, f.place(t), 0, 1); err != nil || refused != 1 {
		t.Errorf("after %d refusals: %v", refused, err)
	}
}

// A list that leaves out manifests, or names what is not there, costs no backup.
func TestLyingListRemovesNoGoodBackup(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	l, f := serve(t), newS3(t, false)
	place := f.place(t)
	var names []string
	for step := range 3 {
		made, err := l.make(t, place, step, 0)
		must.OK(t, err)
		names = append(names, made.Name)
	}
	f.mu.Lock()
	f.listed = func(keys []string) []string {
		keys = slices.DeleteFunc(keys, func(key string) bool { return strings.HasSuffix(key, ".json") })
		for _, name := range names { // newer ones that are not there, and names that lead elsewhere
			n, _ := backups.ParseName(name)
			n.Number += 100
			n.Nonce = [4]byte{}
			keys = append(keys, "prefix/"+n.String(), "prefix/../"+name, "prefix/x/"+name, "prefix/"+name+"/..")
		}
		return keys
	}
	f.mu.Unlock()
	made, err := l.make(t, place, 40, 3) // days later, so that what has no manifest is left behind
	must.OK(t, err)
	f.mu.Lock()
	f.listed = nil
	asked := slices.Clone(f.asked)
	f.mu.Unlock()
	if kept := done(t, place); !slices.Contains(kept, made.Name) || !slices.Contains(kept, names[2]) || !slices.Contains(kept, names[1]) {
		t.Errorf("done: %v", kept)
	}
	for _, a := range asked {
		if strings.Contains(a, "..") || strings.Contains(a, "/x/") {
			t.Errorf("asked for %s", a)
		}
	}
}

// Parts of an upload that was interrupted a day ago are removed, and those of others never.
func TestInterruptedUploadsAreRemoved(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	l, f := serve(t), newS3(t, false)
	place := f.place(t)
	made, err := l.make(t, place, 0, 0)
	must.OK(t, err)
	old := at.Add(-48 * time.Hour)
	f.uploads = map[string]*upload{
		"left":      {key: "prefix/" + made.Name, began: old},
		"under way": {key: "prefix/" + made.Name + ".age", began: at},
		"stranger":  {key: "prefix/holiday.mov", began: old},
		"other":     {key: "prefix/attestd-00112233445566778899aabbccddeeff-00000007-20260101T050607Z-0badcafe.db", began: old},
	}
	_, err = l.make(t, place, 1, 0)
	must.OK(t, err)
	var left []string
	for id := range f.uploads {
		left = append(left, id)
	}
	if slices.Sort(left); !slices.Equal(left, []string{"other", "stranger", "under way"}) {
		t.Errorf("left: %v", left)
	}
}

// Credentials and backups go by plain http to this machine alone, and no address holds credentials.
func TestUnsafeBucketIsRefused(t *testing.T) {
	t.Parallel()
	o := backups.BucketOptions{AccessKey: "access", SecretKey: "secret", Lock: backups.LockOff}
	for _, c := range []struct {
		address, endpoint string
		allow, ok         bool
	}{
		{"s3://b/p", "", false, true}, {"s3://b", "https://s3.example.com", false, true}, {"s3://b", "http://127.0.0.1:9000", false, true},
		{"s3://b", "http://[::1]:9000", false, true}, {"s3://b", "http://s3.example.com", false, false}, {"s3://b", "http://s3.example.com", true, true},
		{"s3://b", "http://127.0.0.1.example.com", false, false}, {"s3://b", "ftp://s3.example.com", false, false},
		{"s3://b", "https://key:secret@s3.example.com", false, false}, {"s3://key:secret@b/p", "", false, false},
		{"s3://b/../c", "", false, false}, {"s3://b/a//c", "", false, false}, {"s3://b/p?x=y", "", false, false}, {"s3://", "", false, false}, {"https://b/p", "", false, false},
	} {
		o.Endpoint, o.AllowHTTP = c.endpoint, c.allow
		if _, err := backups.OpenBucket(c.address, o); (err == nil) != c.ok || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s at %q: %v", c.address, c.endpoint, err)
		}
	}
	if _, err := backups.OpenBucket("s3://b", backups.BucketOptions{}); err == nil {
		t.Error("without credentials")
	}
}

// A folder that is missing or that others may write gets no backups. Foreign files in it are not
// followed or removed.
func TestUnsafeFolder(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	l, place := serve(t), folder(t)
	dir := place.String()
	if _, err := backups.OpenFolder(filepath.Join(dir, "not-mounted")); err == nil {
		t.Error("a folder that is missing")
	}
	must.OK(t, os.Chmod(dir, 0o777))
	if _, err := l.make(t, place, 0, 1); err == nil {
		t.Error("a folder that others may write")
	}
	must.OK(t, os.Chmod(dir, 0o700))
	first, err := l.make(t, place, 0, 1)
	must.OK(t, err)
	n, _ := backups.ParseName(first.Name)
	n.Nonce[0] ^= 1
	secret := filepath.Join(t.TempDir(), "secret")
	must.OK(t, os.WriteFile(secret, []byte("a file elsewhere"), 0o600))
	manifest, err := os.ReadFile(place.Address(first.Name + ".json"))
	must.OK(t, err)
	must.OK(t, os.Symlink(secret, place.Address(n.String())))
	must.OK(t, os.WriteFile(place.Address(n.String()+".json"), bytes.ReplaceAll(manifest, []byte(first.Name), []byte(n.String())), 0o600))
	must.OK(t, os.Symlink(secret, place.Address(n.String()+".partial")))
	must.OK(t, os.Mkdir(place.Address("attestd-"+strings.Repeat("0", 32)+".db"), 0o700))
	must.OK(t, os.WriteFile(place.Address("attestd.db"), []byte("a stranger's"), 0o600))
	for step := 1; step < 3; step++ {
		_, err := l.make(t, place, step, 1)
		must.OK(t, err)
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "a file elsewhere" {
		t.Errorf("%q, %v", text, err)
	}
	entries, err := os.ReadDir(dir)
	must.OK(t, err)
	// one backup of two files, and what was laid there
	if len(entries) != 7 || len(done(t, place)) != 1 {
		t.Errorf("%v", entries)
	}
}

// A list of a bucket that has no end costs bounded memory, and no backup.
func TestEndlessListIsRefused(t *testing.T) {
	t.Parallel()
	f, pages := newS3(t, false), 0
	var contents strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&contents, "<Contents><Key>prefix/%d%050d</Key><Size>1</Size><LastModified>2026-03-04T05:06:07Z</LastModified></Contents>", i, 0)
	}
	f.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != "GET" || r.URL.Query().Get("list-type") != "2" {
			return false
		}
		if pages++; pages > 1000 {
			fail(w, 500, "InternalError")
			return true
		}
		fmt.Fprintf(w, "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>%s</ListBucketResult>", pages, contents.String())
		return true
	}
	if names, err := f.place(t).List(t.Context()); !errors.Is(err, store.ErrRefused) || pages > 200 {
		t.Errorf("%d pages, %d names: %v", pages, len(names), err)
	}
}
