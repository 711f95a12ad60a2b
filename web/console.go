// Package web has the embedded console and the API reference.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	"attestd/sdk/python"
	"attestd/web/bundle"
)

// all: includes files whose names begin with an underscore, as in a vendored library.
//
//go:embed all:console verifier
var pageFiles embed.FS

// consolePolicy allows only what the console needs. The one Trusted Types policy,
// "worker", admits the script of the verification worker (console/core/worker.js); there is none
// for HTML.
const consolePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; worker-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types worker"

// contentTypes has the types of the console's files. The system's table differs between machines.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".json": "application/json",
	".mjs":  "text/javascript; charset=utf-8",
}

// checkMJS is the checker for Node. The one for Python is a module of the Python client.
//
//go:embed check.mjs
var checkMJS []byte

// noticesPath is where the licenses are served of what others have written of the program.
const noticesPath = "/notices"

// notices are made by `go -C internal/tools run ./notices ../..`.
//
//go:embed notices.txt
var notices []byte

// asset is one served file of the console.
type asset struct {
	contentType string
	policy      string
	etag        string
	plain       []byte
	gzipped     func() []byte
}

// Console returns the handler of the embedded console, and has, which reports whether a URL path is
// one of its pages or files ("/" is the page itself). The handler answers other paths with 404 in
// plain text; a server with its own 404 response calls has first.
func Console() (h http.Handler, has func(path string) bool) {
	has = func(p string) bool { _, ok := loadConsole()[p]; return ok }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := loadConsole()[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusMethodNotAllowed)
			fmt.Fprintln(w, `{"error":"Method Not Allowed"}`)
			return
		}
		a.serve(w, r)
	}), has
}

func (a *asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", a.policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Content-Type", a.contentType)
	// cached but revalidated, so that a new binary shows its own console immediately
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", a.etag)
	h.Set("Vary", "Accept-Encoding")
	if match := r.Header.Get("If-None-Match"); match != "" && strings.Contains(match, a.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := a.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = a.gzipped()
	}
	h.Set("Content-Length", fmt.Sprint(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // fails if the client has disconnected
	}
}

// loadConsole prepares the served files, by URL path, at the first request; each is compressed when
// it is first asked for. The files are fixed at compile time, so an error is a broken build.
var loadConsole = sync.OnceValue(func() map[string]*asset {
	assets := make(map[string]*asset)
	joined, err := joinConsole()
	if err != nil {
		panic(err)
	}
	for url, content := range joined {
		ext := path.Ext(url)
		if url == "/" {
			ext = ".html"
		}
		assets[url] = newAsset(ext, content)
	}
	alone := map[string][]byte{"/verifier.html": Verifier(), "/check.py": python.Check, "/check.mjs": checkMJS, noticesPath: notices}
	for url, content := range alone {
		assets[url] = newAsset(path.Ext(url), content)
		assets[url].policy = ownPolicy(content)
	}
	return assets
})

// ownPolicy returns the policy in a single-file page, with the directives that a page cannot set
// itself. For other files it returns one that allows nothing.
func ownPolicy(content []byte) string {
	policy := "default-src 'none'"
	if _, rest, ok := bytes.Cut(content, []byte(`http-equiv="Content-Security-Policy" content="`)); ok {
		own, _, _ := bytes.Cut(rest, []byte(`"`))
		policy = string(own)
	}
	return policy + "; frame-ancestors 'none'"
}

func newAsset(ext string, content []byte) *asset {
	contentType, ok := contentTypes[ext]
	if !ok {
		contentType = "text/plain; charset=utf-8" // licences
	}
	sum := sha256.Sum256(content)
	return &asset{
		contentType: contentType,
		policy:      consolePolicy,
		// Weak, because the plain and the gzipped form share it.
		etag:  `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`,
		plain: content,
		gzipped: sync.OnceValue(func() []byte {
			var zipped bytes.Buffer
			zip, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
			_, _ = zip.Write(content) // no error from a bytes.Buffer
			_ = zip.Close()
			return zipped.Bytes()
		}),
	}
}

// Demo returns the script of the demonstration: an array of steps, each with does, in words, and
// one of these:
//
//	call       a method and a path, with body. keep has pairs: a name, and the member of the answer
//	           that it stores. as is the name of the stored credential; the company's key is "key", and
//	           with "" there is none. With until, it is asked until that member is a list of
//	           something.
//	           In a batch, session and end of a record are for the player: the agent signs the
//	           record at the next place of that session, which ends with end.
//	key        makes a key pair: {name} is x of its JWK, {nameId} its thumbprint
//	enrol      makes a key pair for that agent, and enrols it
//	assertion  {assertion} is a JWT of that type and these claims, signed with that key
//	cosign     has a witness of the demonstration's own cosign the newest checkpoint of the log of
//	           actions: {checkpoint} is what it has signed, {witness} its vkey
//
// In call, body and claims, {name} is a stored value, {company} the ID of the company, {inAQuarter}
// a time, and {Mon 09:12} a time of the last week from Monday to Friday of which the Friday is
// over.
func Demo() []byte { return loadConsole()["/demo.json"].plain }

// Where the console's modules and styles are served: all that the first page needs comes with one
// request each.
const (
	scriptURL = "/console.js"
	styleURL  = "/console.css"
)

// joinConsole returns the served files of the console, by URL path: the page with one script and
// one style, a script for each worker and each module that is loaded later, and other files
// unchanged. It is the only build step of the modules.
func joinConsole() (map[string][]byte, error) {
	files, err := fs.Sub(pageFiles, "console")
	if err != nil {
		return nil, err
	}
	src, err := fs.ReadFile(files, "index.html")
	if err != nil {
		return nil, err
	}
	page, err := bundle.ReadPage(src)
	if err != nil {
		return nil, fmt.Errorf("index.html: %w", err)
	}
	served := make(map[string][]byte)
	head := fmt.Sprintf("<link rel=\"stylesheet\" href=%q>\n<script type=\"module\" src=%q></script>\n</head>", styleURL, scriptURL)
	served["/"] = []byte(strings.Replace(page.Text, "</head>", head, 1))
	for _, name := range page.Styles {
		style, err := fs.ReadFile(files, strings.TrimPrefix(name, "/"))
		if err != nil {
			return nil, err
		}
		served[styleURL] = append(served[styleURL], style...)
	}
	if err := joinScripts(files, strings.TrimPrefix(page.Script, "/"), served); err != nil {
		return nil, err
	}
	return served, fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || slices.Contains([]string{".js", ".css", ".html"}, path.Ext(name)) {
			return err
		}
		served["/"+name], err = fs.ReadFile(files, name)
		return err
	})
}

func joinScripts(files fs.FS, entry string, served map[string][]byte) error {
	later := func(name string) string { return "/" + name }
	first := &bundle.Bundle{Files: files, Later: later}
	if _, err := first.Add(entry); err != nil {
		return err
	}
	served[scriptURL] = []byte(first.Module())
	due := first.Dynamic()
	workers, err := fs.Glob(files, "*_worker.js")
	if err != nil {
		return err
	}
	for _, name := range workers {
		b := &bundle.Bundle{Files: files, Later: later}
		if _, err := b.Add(name); err != nil {
			return err
		}
		served["/"+name] = []byte(b.Module())
		due = append(due, b.Dynamic()...)
	}
	for len(due) > 0 {
		name := due[0]
		due = due[1:]
		if served["/"+name] != nil {
			continue
		}
		b := &bundle.Bundle{Files: files, Later: later, Shared: first, SharedURL: scriptURL}
		if _, err := b.Add(name); err != nil {
			return err
		}
		served["/"+name] = []byte(b.Module())
		due = append(due, b.Dynamic()...)
	}
	return nil
}
