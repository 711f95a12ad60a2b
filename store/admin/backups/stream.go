package backups

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"time"

	"attestd/internal/sleep"
	"attestd/store"
	"attestd/store/sqlite"
)

// counter counts the bytes that are read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// digest is a writer that remembers the size and the SHA-256 of what is written.
type digest struct {
	hash hash.Hash
	size int64
}

func newDigest() *digest { return &digest{hash: sha256.New()} }

func (d *digest) Write(b []byte) (int, error) {
	d.size += int64(len(b))
	return d.hash.Write(b)
}

func (d *digest) hex() string { return fmt.Sprintf("%x", d.hash.Sum(nil)) }

// pace holds reading and writing to a rate, and leaves room on the disks that they fill.
type pace struct {
	ctx   context.Context
	rate  int64 // bytes a second; 0 is without a bound
	dirs  []string
	moved int64
	begun time.Time
	// bytes after which the room was looked at last
	looked int64
}

// reserve is what stays free of a file system: a hundredth of it, or 256 MiB where that is less.
func reserve(size int64) int64 { return min(size/100, 256<<20) }

// checkRoom returns an error if n more bytes in a folder would leave less than the reserve.
func checkRoom(dir string, n int64) error {
	free, size, isKnown := sqlite.FreeRoom(dir)
	if !isKnown || free-n >= reserve(size) {
		return nil
	}
	return fmt.Errorf("%w: %s has %d MiB free; a backup needs %d MiB there and leaves %d MiB of the disk free. Make room, or name other folders with --backup-temp and --backup-to",
		store.ErrUnavailable, dir, free>>20, n>>20, reserve(size)>>20)
}

// roomEvery is the number of bytes after which the room is looked at again.
const roomEvery = 16 << 20

// move waits until n more bytes are due.
func (p *pace) move(n int64) error {
	if p.begun.IsZero() {
		p.begun = time.Now()
	}
	p.moved += n
	if p.moved-p.looked >= roomEvery {
		p.looked = p.moved
		for _, dir := range p.dirs {
			if err := checkRoom(dir, 0); err != nil {
				return err
			}
		}
	}
	if p.rate <= 0 {
		return p.ctx.Err()
	}
	ahead := time.Duration(float64(p.moved)/float64(p.rate)*float64(time.Second)) - time.Since(p.begun)
	if ahead < time.Millisecond {
		return p.ctx.Err()
	}
	return sleep.For(p.ctx, ahead)
}

// pacedReader reads at a pace.
type pacedReader struct {
	r io.Reader
	p *pace
}

func (r pacedReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b[:min(len(b), 256<<10)])
	if waited := r.p.move(int64(n)); waited != nil {
		return n, waited
	}
	return n, err
}
