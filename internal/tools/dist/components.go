package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"
)

// The members of a CycloneDX 1.6 list that we have (https://cyclonedx.org/docs/1.6/json/).
type (
	componentList struct {
		Format       string      `json:"bomFormat"`
		SpecVersion  string      `json:"specVersion"`
		SerialNumber string      `json:"serialNumber"`
		Version      int         `json:"version"`
		Metadata     metadata    `json:"metadata"`
		Components   []component `json:"components"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		PURL       string     `json:"purl,omitempty"`
		Hashes     []hash     `json:"hashes,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
)

// components returns the list of what a program is made of, as its own build info has it: the
// modules that are linked into it, with the sums of go.sum, and Go's standard library.
func (p program) components(version string, at time.Time) ([]byte, error) {
	sum := sha256.Sum256(p.text)
	self := component{Type: "application", Ref: p.name, Name: p.name, Version: version,
		Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}}
	for _, s := range p.info.Settings {
		if strings.HasPrefix(s.Key, "vcs.") || s.Key == "GOOS" || s.Key == "GOARCH" {
			self.Properties = append(self.Properties, property{"go:" + s.Key, s.Value})
		}
	}
	list := componentList{Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		// a UUID of the program's bytes, so that the same program has the same list
		SerialNumber: "urn:uuid:" + uuid.NewSHA1(uuid.NameSpaceOID, sum[:]).String(),
		Metadata:     metadata{at.Format(time.RFC3339), self}}
	list.add("std", strings.TrimPrefix(p.info.GoVersion, "go"), "")
	for _, module := range p.info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		list.add(module.Path, module.Version, module.Sum)
	}
	var out bytes.Buffer
	w := json.NewEncoder(&out)
	w.SetEscapeHTML(false)
	w.SetIndent("", "  ")
	err := w.Encode(list)
	return out.Bytes(), err
}

func (l *componentList) add(module, version, sum string) {
	url := "pkg:golang/" + module + "@" + strings.ReplaceAll(version, "+", "%2B")
	c := component{Type: "library", Ref: url, Name: module, Version: version, PURL: url}
	if sum != "" {
		c.Properties = []property{{"go:sum", sum}}
	}
	l.Components = append(l.Components, c)
}
