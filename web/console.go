// Package web holds what a browser or a client developer is shown: the console and the API's
// reference.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
)

// all: takes the files whose names begin with an underscore too; one vendored library has such.
//
//go:embed all:console
var consoleFiles embed.FS

// consolePolicy allows what the console is made of and nothing else. The one Trusted Types policy,
// "worker", admits the script of the verification worker (console/core/worker.js); there is none
// for HTML.
const consolePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; worker-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types worker"

// contentTypes are the kinds of file a console has; the system's own table is not asked, since it
// differs between machines.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".mjs":  "text/javascript; charset=utf-8",
}

// What checks evidence without us, in one file each: the page works from disk.
//
//go:generate go run ./gen page verifier/page.html verifier.html
//go:generate go run ./gen join checkers/python/* check.py
//go:generate go run ./gen join checkers/javascript/* check.mjs
//go:generate go run ./gen join ../sdk/python/parts/*,checkers/python/[1-7]* ../sdk/python/attestd/__init__.py
//go:embed verifier.html check.py check.mjs
var checkerFiles embed.FS

// asset is one file of the console, ready to be sent.
type asset struct {
	contentType string
	policy      string
	etag        string
	plain       []byte
	gzipped     []byte
}

// Console returns the handler of the embedded console and has, which says whether a URL path is one
// of its pages or files ("/" is the page itself). What has denies, the handler answers with 404 in
// plain text: a server that has its own form of 404 asks first.
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
	// kept, but asked for again: a new binary shows its own console at once
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
		body = a.gzipped
	}
	h.Set("Content-Length", fmt.Sprint(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // that the client may have gone is its business
	}
}

// loadConsole makes what is served of the embedded files, by URL path, when it is first asked for:
// that takes a tenth of a second, which no start has to wait for. They are fixed at compile time,
// so an error is a broken build.
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
	for _, name := range []string{"verifier.html", "check.py", "check.mjs"} {
		content, err := checkerFiles.ReadFile(name)
		if err != nil {
			panic(err)
		}
		a := newAsset(path.Ext(name), content)
		a.policy = ownPolicy(content)
		assets["/"+name] = a
	}
	return assets
})

// ownPolicy is the policy that stands in a page of one file, and what a page cannot say of itself;
// of what is no page, that it is none.
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
	var zipped bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression) // a level that exists
	_, _ = zip.Write(content)                                    // a bytes.Buffer takes everything
	_ = zip.Close()
	return &asset{
		contentType: contentType,
		policy:      consolePolicy,
		// Weak: the same file stands behind its plain and its gzipped form.
		etag:    `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`,
		plain:   content,
		gzipped: zipped.Bytes(),
	}
}
