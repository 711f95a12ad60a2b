package backups_test

import (
	"bufio"
	"bytes"
	"crypto/md5"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/store/admin/backups"
)

// s3 is a service with the part of S3's API that backups use: one bucket with versions, multipart
// uploads and object lock. It does not check signatures.
type s3 struct {
	url    string
	locked bool // the bucket has object lock
	// whether headers of an object say its retention, or only a request for it
	saysLock bool

	mu       sync.Mutex
	versions int
	objects  map[string][]*object // by key, the newest last
	uploads  map[string]*upload   // by ID
	asked    []string             // method and path of each request
	// what goes wrong; returns true if it has answered
	fault func(w http.ResponseWriter, r *http.Request) bool
	// changes the bytes of a download
	served func(key string, body []byte) []byte
	// changes a list
	listed func(keys []string) []string
}

type object struct {
	version string
	body    []byte
	mode    string
	until   time.Time
}

type upload struct {
	key   string
	began time.Time
	parts map[int][]byte
	head  http.Header
}

func newS3(t *testing.T, locked bool) *s3 {
	f := &s3{locked: locked, objects: map[string][]*object{}, uploads: map[string]*upload{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

// place opens the bucket as one of backups.
func (f *s3) place(t *testing.T, change ...func(*backups.BucketOptions)) *backups.Bucket {
	t.Helper()
	o := backups.BucketOptions{Endpoint: f.url, Region: "us-east-1", PathStyle: true, AccessKey: "access", SecretKey: "secret",
		Lock: backups.LockAuto, LockFor: time.Hour, Now: time.Now}
	for _, c := range change {
		c(&o)
	}
	b, err := backups.OpenBucket("s3://bucket/prefix", o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// keys returns the names in the prefix.
func (f *s3) keys() (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.objects {
		names = append(names, strings.TrimPrefix(key, "prefix/"))
	}
	slices.Sort(names)
	return names
}

// put stores an object as another program would.
func (f *s3) put(key string, body []byte, head http.Header) *object {
	f.versions++
	o := &object{version: fmt.Sprintf("v%d", f.versions), body: body, mode: head.Get("X-Amz-Object-Lock-Mode")}
	o.until, _ = time.Parse(time.RFC3339, head.Get("X-Amz-Object-Lock-Retain-Until-Date"))
	f.objects[key] = append(f.objects[key], o)
	return o
}

func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>refused</Message></Error>", code)
}

func (f *s3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, r.Method+" "+r.URL.Path)
	if f.fault != nil && f.fault(w, r) {
		return
	}
	key, inBucket := strings.CutPrefix(r.URL.Path, "/bucket")
	key = strings.TrimPrefix(key, "/")
	if !inBucket {
		fail(w, 404, "NoSuchBucket")
		return
	}
	if key == "" {
		f.bucket(w, r)
		return
	}
	q := r.URL.Query()
	switch {
	case r.Method == "POST" && q.Has("uploads"):
		f.versions++
		id := fmt.Sprintf("u%d", f.versions)
		f.uploads[id] = &upload{key: key, began: time.Now(), parts: map[int][]byte{}, head: r.Header}
		reply(w, struct {
			XMLName     xml.Name `xml:"InitiateMultipartUploadResult"`
			Bucket, Key string
			UploadID    string `xml:"UploadId"`
		}{Bucket: "bucket", Key: key, UploadID: id})
	case q.Has("uploadId"):
		f.multipart(w, r, key, q.Get("uploadId"))
	case r.Method == "PUT":
		body, err := content(r)
		if err != nil {
			fail(w, 400, "IncompleteBody")
			return
		}
		o := f.put(key, body, r.Header)
		w.Header().Set("X-Amz-Version-Id", o.version)
		w.Header().Set("ETag", etag(body))
	case r.Method == "DELETE":
		f.remove(w, key, q.Get("versionId"))
	default:
		f.get(w, r, key, q.Get("versionId"))
	}
}

func etag(body []byte) string { return fmt.Sprintf(`"%x"`, md5.Sum(body)) }

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/xml")
	text, _ := xml.Marshal(v)
	_, _ = w.Write(text)
}

func (f *s3) bucket(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case r.Method == "HEAD":
	case q.Has("object-lock"):
		if !f.locked {
			fail(w, 404, "ObjectLockConfigurationNotFoundError")
			return
		}
		_, _ = io.WriteString(w, "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>")
	case q.Has("uploads"):
		type one struct {
			Key       string
			UploadID  string `xml:"UploadId"`
			Initiated string
		}
		list := struct {
			XMLName xml.Name `xml:"ListMultipartUploadsResult"`
			Upload  []one
		}{}
		for id, u := range f.uploads {
			list.Upload = append(list.Upload, one{u.key, id, u.began.UTC().Format(time.RFC3339)})
		}
		reply(w, list)
	default:
		type one struct {
			Key          string
			Size         int
			LastModified string
		}
		list := struct {
			XMLName  xml.Name `xml:"ListBucketResult"`
			Contents []one
		}{}
		var keys []string
		for key := range f.objects {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		if f.listed != nil {
			keys = f.listed(keys)
		}
		for _, key := range keys {
			if strings.HasPrefix(key, q.Get("prefix")) {
				list.Contents = append(list.Contents, one{key, 1, time.Now().UTC().Format(time.RFC3339)})
			}
		}
		reply(w, list)
	}
}

func (f *s3) multipart(w http.ResponseWriter, r *http.Request, key, id string) {
	u := f.uploads[id]
	if u == nil || u.key != key {
		fail(w, 404, "NoSuchUpload")
		return
	}
	switch r.Method {
	case "PUT":
		n, _ := strconv.Atoi(r.URL.Query().Get("partNumber"))
		body, err := content(r)
		if err != nil {
			fail(w, 400, "IncompleteBody")
			return
		}
		u.parts[n] = body
		w.Header().Set("ETag", etag(body))
	case "DELETE":
		delete(f.uploads, id)
		w.WriteHeader(204)
	default:
		var body []byte
		for n := 1; n <= len(u.parts); n++ {
			body = append(body, u.parts[n]...)
		}
		delete(f.uploads, id)
		o := f.put(key, body, u.head)
		w.Header().Set("X-Amz-Version-Id", o.version)
		reply(w, struct {
			XMLName           xml.Name `xml:"CompleteMultipartUploadResult"`
			Bucket, Key, ETag string
		}{Bucket: "bucket", Key: key, ETag: etag(body)})
	}
}

// find returns a version of an object, the newest for "".
func (f *s3) find(key, version string) (int, *object) {
	list := f.objects[key]
	for i := len(list) - 1; i >= 0; i-- {
		if version == "" || list[i].version == version {
			return i, list[i]
		}
	}
	return 0, nil
}

func (f *s3) remove(w http.ResponseWriter, key, version string) {
	i, o := f.find(key, version)
	switch {
	case o == nil:
	case time.Now().Before(o.until):
		fail(w, 403, "AccessDenied")
		return
	default:
		if f.objects[key] = slices.Delete(f.objects[key], i, i+1); len(f.objects[key]) == 0 {
			delete(f.objects, key)
		}
	}
	w.WriteHeader(204)
}

func (f *s3) get(w http.ResponseWriter, r *http.Request, key, version string) {
	_, o := f.find(key, version)
	if o == nil {
		fail(w, 404, "NoSuchKey")
		return
	}
	if r.URL.Query().Has("retention") {
		if o.mode == "" {
			fail(w, 404, "NoSuchObjectLockConfiguration")
			return
		}
		fmt.Fprintf(w, "<Retention><Mode>%s</Mode><RetainUntilDate>%s</RetainUntilDate></Retention>", o.mode,
			o.until.UTC().Format(time.RFC3339))
		return
	}
	body := o.body
	if f.served != nil {
		body = f.served(key, bytes.Clone(body))
	}
	w.Header().Set("ETag", etag(body))
	w.Header().Set("X-Amz-Version-Id", o.version)
	if o.mode != "" && f.saysLock {
		w.Header().Set("X-Amz-Object-Lock-Mode", o.mode)
		w.Header().Set("X-Amz-Object-Lock-Retain-Until-Date", o.until.UTC().Format(time.RFC3339))
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Now().Add(-time.Hour), bytes.NewReader(body))
}

// content returns the body of an upload, which is in signed chunks where the connection is not
// encrypted.
func content(r *http.Request) ([]byte, error) {
	if !strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return io.ReadAll(r.Body)
	}
	var body []byte
	in := bufio.NewReader(r.Body)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, io.ErrUnexpectedEOF
		}
		size, err := strconv.ParseInt(strings.TrimSpace(strings.SplitN(line, ";", 2)[0]), 16, 32)
		if err != nil {
			return nil, err
		}
		if size == 0 {
			_, err := io.Copy(io.Discard, in)
			return body, err
		}
		chunk := make([]byte, size+2)
		if _, err := io.ReadFull(in, chunk); err != nil {
			return nil, err
		}
		body = append(body, chunk[:size]...)
	}
}
