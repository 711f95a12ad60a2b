package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"attestd/web/bundle"
)

// Verifier returns the page that checks evidence from disk, without a server. It is one file. The
// caller must not change the result.
func Verifier() []byte { return verifier() }

// verifier joins the page when it is first asked for. Its parts are fixed at compile time, so an
// error is a broken build.
var verifier = sync.OnceValue(func() []byte {
	page, err := joinPage(pageFiles, "verifier/page.html")
	if err != nil {
		panic(fmt.Sprintf("verifier/page.html: %v", err))
	}
	return page
})

// The places of a page where something is put in.
const (
	policyMark = "{{policy}}"
	noticeMark = "{{licences}}"
)

// joinPage returns a page in one file: its styles and its modules are in it, and its policy allows
// those by their hashes and nothing else.
func joinPage(files fs.FS, name string) ([]byte, error) {
	src, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	parts, err := bundle.ReadPage(src)
	if err != nil {
		return nil, err
	}
	dir := path.Dir(name)
	var style bytes.Buffer
	for _, name := range parts.Styles {
		css, err := fs.ReadFile(files, path.Join(dir, name))
		if err != nil {
			return nil, err
		}
		style.Write(css)
	}
	if bytes.Contains(style.Bytes(), []byte("</style")) {
		return nil, errors.New("the styles end early")
	}
	modules := bundle.Bundle{Files: files}
	if _, err := modules.Add(path.Join(dir, parts.Script)); err != nil {
		return nil, err
	}
	licences, err := licencesOf(files, modules.Names())
	if err != nil {
		return nil, err
	}
	script := modules.Script()
	policy := "default-src 'none'; script-src " + hashOf(script) + "; style-src " + hashOf(style.String()) +
		"; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
	return []byte(strings.NewReplacer(policyMark, policy, noticeMark, licences,
		"</head>", "<style>"+style.String()+"</style>\n</head>", "</body>", "<script>"+script+"</script>\n</body>").Replace(parts.Text)), nil
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// licencesOf returns the notices in the folders of vendored modules, which must travel with copies
// of these.
func licencesOf(files fs.FS, modules []string) (string, error) {
	var all strings.Builder
	var folders []string
	for _, name := range modules {
		if dir := path.Dir(name); strings.Contains(dir, "/vendor") && !slices.Contains(folders, dir) {
			folders = append(folders, dir)
		}
	}
	slices.Sort(folders)
	for _, dir := range folders {
		names, err := fs.Glob(files, path.Join(dir, "LICENSE-*"))
		if err != nil {
			return "", err
		}
		for _, name := range names {
			notice, err := fs.ReadFile(files, name)
			if err != nil {
				return "", err
			}
			if bytes.Contains(notice, []byte("--")) {
				return "", fmt.Errorf("%s cannot stand in a comment", name)
			}
			fmt.Fprintf(&all, "%s:\n\n%s\n", strings.TrimPrefix(path.Base(name), "LICENSE-"), strings.TrimSpace(string(notice)))
		}
	}
	return all.String(), nil
}
