package backups

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"

	"attestd/store"
)

// ParseRecipients parses public keys of age, which begin with age1. Errors do not contain a secret
// key that was given by mistake.
func ParseRecipients(list []string) (found []age.Recipient, err error) {
	for _, text := range list {
		r, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil || len(r) != 1 {
			if !strings.HasPrefix(text, "age1") {
				text = "what was given"
			}
			return nil, fmt.Errorf("%w: %s is not a public key of age, which begins with age1; age-keygen makes one",
				store.ErrRefused, text)
		}
		found = append(found, r...)
	}
	return found, nil
}

// ParseIdentities parses a file of secret keys of age. Errors do not contain them.
func ParseIdentities(text []byte) ([]age.Identity, error) {
	found, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil || len(found) == 0 {
		return nil, fmt.Errorf("%w: it holds no secret key of age, a line that begins with AGE-SECRET-KEY-", store.ErrRefused)
	}
	return found, nil
}

// encrypt returns a reader of what source has, encrypted. Closing it ends the goroutine that
// encrypts.
func encrypt(source io.Reader, recipients []age.Recipient) *io.PipeReader {
	r, w := io.Pipe()
	go func() {
		// so that each read gets a whole chunk
		buffered := bufio.NewWriterSize(w, 256<<10)
		to, err := age.Encrypt(buffered, recipients...)
		if err == nil {
			_, err = io.Copy(to, source)
		}
		if err == nil {
			err = to.Close()
		}
		if err == nil {
			err = buffered.Flush()
		}
		w.CloseWithError(err) // nil is io.EOF
	}()
	return r
}

// counted is a writer that reports how much was written.
type counted struct {
	n      int64
	report func(n int64)
}

func (c *counted) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	c.report(c.n)
	return len(b), nil
}

// compareSent reads a backup, compares it with its manifest, and writes the database in it to out.
// Without identities, out gets nothing of an encrypted one.
func compareSent(m Manifest, r io.Reader, out io.Writer, identities []age.Identity, progress func(string, int64, int64)) error {
	read := newDigest()
	// One byte more than there should be, so that a longer one is noticed and does not fill a disk.
	source := io.TeeReader(io.LimitReader(r, m.Size+1), io.MultiWriter(read, &counted{report: func(n int64) { progress("read back", n, m.Size) }}))
	plain, opened := newDigest(), error(nil)
	switch {
	case len(m.Recipients) == 0:
		_, opened = io.Copy(io.MultiWriter(out, plain), source)
	case len(identities) > 0:
		var database io.Reader
		if database, opened = age.Decrypt(source, identities...); opened == nil {
			_, opened = io.Copy(io.MultiWriter(out, plain), io.LimitReader(database, m.PlainSize+1))
		}
	}
	if _, err := io.Copy(io.Discard, source); err != nil {
		return errors.Join(opened, err)
	}
	switch {
	case read.size != m.Size:
		return errors.Join(fmt.Errorf("%w: it has %s bytes, and not %d", store.ErrCorrupt,
			atLeast(read.size, m.Size), m.Size), opened)
	case read.hex() != m.SHA256:
		return errors.Join(fmt.Errorf("%w: its SHA-256 is %s, and not %s", store.ErrCorrupt, read.hex(), m.SHA256), opened)
	case opened != nil:
		return identityError(opened)
	case len(m.Recipients) > 0 && len(identities) == 0:
		return nil
	case plain.size != m.PlainSize || plain.hex() != m.PlainSHA256:
		return fmt.Errorf("%w: the database in it is not the one that was encrypted", store.ErrCorrupt)
	}
	return nil
}

func atLeast(n, most int64) string {
	if n > most {
		return "more"
	}
	return fmt.Sprint(n)
}

// identityError says what to do if no identity opens a backup.
func identityError(err error) error {
	if none := (*age.NoIdentityMatchError)(nil); errors.As(err, &none) {
		return fmt.Errorf("%w: it is encrypted to other recipients than the identities that were given",
			store.ErrRefused)
	}
	return err
}

// restoreTo writes the database in a backup to the empty file at path.
func restoreTo(path string, m Manifest, r io.Reader, identities []age.Identity, progress func(string, int64, int64)) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(compareSent(m, r, f, identities, progress), f.Close())
}
