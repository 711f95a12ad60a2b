package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"attestd/web/bundle"
)

// The places of a page where something is put in.
const (
	policyMark = "{{policy}}"
	noticeMark = "{{licences}}"
)

// page returns a page in one file: its styles and its modules stand in it, its policy allows those
// by their hashes and nothing else.
func page(name string) ([]byte, error) {
	src, err := os.ReadFile(name)
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
		css, err := os.ReadFile(path.Join(dir, name))
		if err != nil {
			return nil, err
		}
		style.Write(css)
	}
	if bytes.Contains(style.Bytes(), []byte("</style")) {
		return nil, errors.New("the styles end early")
	}
	modules := bundle.Bundle{Files: os.DirFS(".")}
	if _, err := modules.Add(path.Join(dir, parts.Script)); err != nil {
		return nil, err
	}
	licences, err := licencesOf(modules.Names())
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

// licencesOf returns the notices that stand beside vendored modules, which must travel with copies
// of these.
func licencesOf(modules []string) (string, error) {
	var all strings.Builder
	var folders []string
	for _, name := range modules {
		if dir := filepath.Dir(name); strings.Contains(filepath.ToSlash(dir), "/vendor") && !slices.Contains(folders, dir) {
			folders = append(folders, dir)
		}
	}
	slices.Sort(folders)
	for _, dir := range folders {
		names, err := filepath.Glob(filepath.Join(dir, "LICENSE-*"))
		if err != nil {
			return "", err
		}
		for _, name := range names {
			notice, err := os.ReadFile(name)
			if err != nil {
				return "", err
			}
			if bytes.Contains(notice, []byte("--")) {
				return "", fmt.Errorf("%s cannot stand in a comment", name)
			}
			fmt.Fprintf(&all, "%s:\n\n%s\n", strings.TrimPrefix(filepath.Base(name), "LICENSE-"), strings.TrimSpace(string(notice)))
		}
	}
	return all.String(), nil
}

// join returns the files that some patterns, separated by commas, match, one after the other: those
// of a pattern in the order of their names.
func join(patterns string) ([]byte, error) {
	var parts [][]byte
	for _, pattern := range strings.Split(patterns, ",") {
		names, err := filepath.Glob(pattern) // sorted
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			part, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			parts = append(parts, part)
		}
	}
	return bytes.Join(parts, []byte("\n")), nil
}
