package web

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"attestd/web/bundle"
)

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
