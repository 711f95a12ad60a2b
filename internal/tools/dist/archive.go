package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// file is one file of an archive.
type file struct {
	name string // with slashes, relative
	text []byte
	mode fs.FileMode
}

// under returns the files below a folder.
func under(folder string, files []file) []file {
	moved := slices.Clone(files)
	for i := range moved {
		moved[i].name = path.Join(folder, moved[i].name)
	}
	return moved
}

// sorted returns the files in the order of their names.
func sorted(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return cmp.Compare(a.name, b.name) })
}

// folders returns all folders above the files, in order.
func folders(files []file) []string {
	var all []string
	for _, f := range files {
		for folder := path.Dir(f.name); folder != "."; folder = path.Dir(folder) {
			all = append(all, folder)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// tarball returns the files as a .tar.gz that depends on nothing but them and the time. Everything
// in it belongs to root.
func tarball(files []file, at time.Time) ([]byte, error) { return tarGzip("", files, at) }

// tarGzip is tarball with a prefix before each name; Debian packages have "./".
func tarGzip(prefix string, files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression) // its header has no time
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(compressed)
	header := func(name string, kind byte, mode fs.FileMode, size int) error {
		return w.WriteHeader(&tar.Header{Name: prefix + name, Typeflag: kind, Mode: int64(mode), Size: int64(size),
			Uname: "root", Gname: "root", ModTime: at, Format: tar.FormatGNU})
	}
	if prefix != "" {
		if err := header("", tar.TypeDir, 0o755, 0); err != nil {
			return nil, err
		}
	}
	for _, folder := range folders(files) {
		if err := header(folder+"/", tar.TypeDir, 0o755, 0); err != nil {
			return nil, err
		}
	}
	for _, f := range sorted(files) {
		if err := header(f.name, tar.TypeReg, f.mode, len(f.text)); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	err = errors.Join(w.Close(), compressed.Close())
	return out.Bytes(), err
}

// zipped returns the files as a .zip that depends on nothing but them and the time.
func zipped(files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	w.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(to, flate.BestCompression)
	})
	for _, f := range sorted(files) {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		h.SetMode(f.mode)
		to, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(f.text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// gzipped returns a text as Debian compresses documentation.
func gzipped(text []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(text)
	err = errors.Join(err, w.Close())
	return out.Bytes(), err
}

// lines joins lines to a text.
func lines(all ...string) []byte { return []byte(strings.Join(all, "\n") + "\n") }
