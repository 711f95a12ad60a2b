package main

import (
	"debug/buildinfo"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// programs are the programs of a release, by their packages: the one with all commands, and the one
// for the machine of an agent.
var programs = []struct{ name, source string }{{"attestd", "."}, {"attestd-agent", "./cmd/attestd-agent"}}

// program is a built program.
type program struct {
	name         string
	goos, goarch string
	text         []byte
	info         *buildinfo.BuildInfo
}

func (p program) file() file {
	name := p.name
	if p.goos == "windows" {
		name += ".exe"
	}
	return file{name: name, text: p.text, mode: 0o755}
}

// build compiles a package of the source for a system. The program is stored below bin too, for
// container images.
func (r *release) build(name, source, goos, goarch string) (p program, err error) {
	folder := filepath.Join(r.out, "bin", goos+"-"+goarch)
	// data is the folder that an image's volume begins with.
	if err := errors.Join(os.MkdirAll(folder, 0o755), os.MkdirAll(filepath.Join(r.out, "bin/data"), 0o755)); err != nil {
		return p, err
	}
	p = program{name: name, goos: goos, goarch: goarch}
	path := filepath.Join(folder, p.file().name)
	flags := "-s -w -buildid= -X main.release=" + r.version
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=true", "-mod=readonly", "-ldflags="+flags, "-o", path, source)
	cmd.Dir = r.source
	// Settings of the user would become part of the program.
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off", "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch,
		"GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return p, err
	}
	if p.text, err = os.ReadFile(path); err != nil {
		return p, err
	}
	if p.info, err = buildinfo.ReadFile(path); err != nil {
		return p, err
	}
	return p, nil
}
