package main

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// debianVersion returns a version in Debian's order, where ~ comes before a release.
func debianVersion(version string) string { return strings.ReplaceAll(version, "-", "~") }

// debian returns the Debian package of both programs: deb(5), an ar archive of three members.
func (r *release) debian(p, small program, pages []file) ([]byte, error) {
	data, err := r.installed(p, small, pages)
	if err != nil {
		return nil, err
	}
	var sums strings.Builder
	size := 0
	for _, f := range sorted(data) {
		fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.text), f.name)
		size += len(f.text)
	}
	control := []file{
		{name: "control", mode: 0o644, text: lines(
			"Package: attestd",
			"Version: "+debianVersion(r.version),
			"Architecture: "+p.goarch,
			"Maintainer: The attestd authors <authors@attestd.invalid>",
			fmt.Sprint("Installed-Size: ", (size+1023)/1024),
			"Depends: systemd | systemd-standalone-sysusers",
			"Section: net",
			"Priority: optional",
			"Description: identity for AI agents, and proof of what they did",
			" attestd gives AI agents an identity, and records what they do in",
			" tamper-evident logs, which everybody can check without trusting the server.",
			" .",
			" The package has the program, attestd-agent for the machine of an agent, and a",
			" service that is neither enabled nor started. It listens on loopback until it",
			" is told otherwise.")},
		{name: "md5sums", text: []byte(sums.String()), mode: 0o644},
		{name: "conffiles", text: lines("/etc/attestd/attestd.toml", "/etc/default/attestd"), mode: 0o644},
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		text, err := os.ReadFile(filepath.Join(r.source, "packaging/deb", script))
		if err != nil {
			return nil, err
		}
		control = append(control, file{name: script, text: text, mode: 0o755})
	}
	controlTar, err := tarGzip("./", control, r.time)
	if err != nil {
		return nil, err
	}
	dataTar, err := tarGzip("./", data, r.time)
	if err != nil {
		return nil, err
	}
	return ar(r.time, file{name: "debian-binary", text: []byte("2.0\n")}, file{name: "control.tar.gz", text: controlTar},
		file{name: "data.tar.gz", text: dataTar}), nil
}

// installed returns the files that the package installs, by their paths below the root.
func (r *release) installed(p, small program, pages []file) ([]file, error) {
	const docs = "usr/share/doc/attestd/"
	files := under("usr/bin", []file{p.file(), small.file()})
	for _, page := range pages {
		folder, name := path.Split(page.name)
		switch {
		case folder == "man/":
			text, err := gzipped(page.text)
			if err != nil {
				return nil, err
			}
			files = append(files, file{name: "usr/share/man/man1/" + name + ".gz", text: text, mode: 0o644})
		case name == "attestd.bash":
			files = append(files, file{name: "usr/share/bash-completion/completions/attestd", text: page.text, mode: 0o644})
		case name == "attestd.zsh":
			files = append(files, file{name: "usr/share/zsh/vendor-completions/_attestd", text: page.text, mode: 0o644})
		case name == "attestd.fish":
			files = append(files, file{name: "usr/share/fish/vendor_completions.d/attestd.fish", text: page.text, mode: 0o644})
		}
	}
	for _, copied := range []struct{ from, to string }{
		{"packaging/systemd/attestd.service", "lib/systemd/system/attestd.service"},
		{"packaging/systemd/attestd.sysusers", "usr/lib/sysusers.d/attestd.conf"},
		{"packaging/systemd/attestd.default", "etc/default/attestd"},
		{"packaging/systemd/attestd.toml", "etc/attestd/attestd.toml"},
		{"packaging/deb/overrides", "usr/share/lintian/overrides/attestd"},
		{"docs/monitoring/prometheus.yaml", docs + "monitoring/prometheus.yaml"},
		{"docs/monitoring/alerts.yaml", docs + "monitoring/alerts.yaml"},
		{"docs/monitoring/grafana.json", docs + "monitoring/grafana.json"},
	} {
		text, err := os.ReadFile(filepath.Join(r.source, copied.from))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: copied.to, text: text, mode: 0o644})
	}
	own, err := os.ReadFile(filepath.Join(r.source, "packaging/deb/copyright"))
	if err != nil {
		return nil, err
	}
	others, err := os.ReadFile(filepath.Join(r.source, "web/notices.txt"))
	if err != nil {
		return nil, err
	}
	files = append(files, file{name: docs + "copyright", text: slices.Concat(own, others), mode: 0o644})
	changes, err := os.ReadFile(filepath.Join(r.source, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	upstream, err := gzipped(changes)
	if err != nil {
		return nil, err
	}
	debian, err := gzipped(lines(
		"attestd ("+debianVersion(r.version)+") stable; urgency=medium", "",
		"  * See NEWS.md.gz of this folder.", "",
		" -- The attestd authors <authors@attestd.invalid>  "+r.time.Format(time.RFC1123Z)))
	return append(files, file{name: docs + "NEWS.md.gz", text: upstream, mode: 0o644},
		file{name: docs + "changelog.gz", text: debian, mode: 0o644}), err
}

// ar returns an archive in the common format of Unix, with names of at most 15 characters.
func ar(at time.Time, files ...file) []byte {
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	for _, f := range files {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", f.name, at.Unix(), 0, 0, "100644", len(f.text))
		out.Write(f.text)
		if len(f.text)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}
