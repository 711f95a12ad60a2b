package tlog

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
)

// maxCheckpoint bounds a signed checkpoint, in bytes. It leaves room for 16 signatures, as many as
// signed-note demands, of post-quantum length.
const maxCheckpoint = 128 << 10

// maxExtension bounds the extension lines of a checkpoint, in bytes, so that a cosigned checkpoint
// stays below maxCheckpoint with the signatures of its log.
const maxExtension = 16 << 10

var errCheckpoint = fmt.Errorf("%w checkpoint", ErrMalformed)

// Checkpoint is what a log signs: its origin, and the size and root of its tree.
type Checkpoint struct {
	Origin string
	Tree
}

// Text returns the three lines that signatures are over.
func (c Checkpoint) Text() string {
	return c.Origin + "\n" + strconv.FormatInt(c.Size, 10) + "\n" + c.Root.String() + "\n"
}

// Sign returns the checkpoint with the log's own signature, whose key name is the origin. It
// returns an error when the origin is no valid key name, or the size is out of range.
func (c Checkpoint) Sign(private ed25519.PrivateKey) ([]byte, error) {
	if !validName(c.Origin) || c.Size < 0 || c.Size > maxSize {
		return nil, fmt.Errorf("tlog: cannot sign a checkpoint of size %d for origin %q", c.Size, c.Origin)
	}
	return note.Sign(&note.Note{Text: c.Text()}, newSigner(c.Origin, private))
}

// ExtendedCheckpoint is a checkpoint whose text may go on after the root. Our own logs have no such
// lines, and nothing that checks our logs reads them. A witness cosigns the checkpoints of other
// logs as they are: signatures and cosignatures cover the whole text (c2sp.org/tlog-cosignature).
type ExtendedCheckpoint struct {
	Checkpoint
	// non-empty lines, each with its line break; "" for none
	Extension string
}

// Text returns the whole text, which signatures are over.
func (c ExtendedCheckpoint) Text() string { return c.Checkpoint.Text() + c.Extension }

// ParseCheckpoint parses the text of a checkpoint, without signatures and without extension lines.
// Errors wrap ErrMalformed.
func ParseCheckpoint(text string) (Checkpoint, error) {
	c, err := ParseExtendedCheckpoint(text)
	if err == nil && c.Extension != "" {
		err = errCheckpoint
	}
	if err != nil {
		return Checkpoint{}, err
	}
	return c.Checkpoint, nil
}

// ParseExtendedCheckpoint parses the text of a checkpoint with at most 16 KiB of extension lines.
// Errors wrap ErrMalformed.
func ParseExtendedCheckpoint(text string) (ExtendedCheckpoint, error) {
	read, err := torchwood.ParseCheckpoint(text)
	c := ExtendedCheckpoint{Checkpoint{read.Origin, Tree{read.N, read.Hash}}, read.Extension}
	// torchwood accepts a root with stray bits or line breaks; Text has neither
	if err != nil || !validOrigin(c.Origin) || c.Size > maxSize || len(c.Extension) > maxExtension || c.Text() != text {
		return ExtendedCheckpoint{}, errCheckpoint
	}
	return c, nil
}

// ParseSignedCheckpoint parses a signed checkpoint without checking its signatures, which the note
// lists as unverified. Callers use it to find the keys of the origin. Errors wrap ErrMalformed.
func ParseSignedCheckpoint(signed []byte) (Checkpoint, *note.Note, error) {
	n, err := parseNote(signed)
	if err != nil {
		return Checkpoint{}, nil, err
	}
	c, err := ParseCheckpoint(n.Text)
	return c, n, err
}

// ParseSignedExtendedCheckpoint is ParseSignedCheckpoint of one that may have extension lines.
func ParseSignedExtendedCheckpoint(signed []byte) (ExtendedCheckpoint, *note.Note, error) {
	n, err := parseNote(signed)
	if err != nil {
		return ExtendedCheckpoint{}, nil, err
	}
	c, err := ParseExtendedCheckpoint(n.Text)
	return c, n, err
}

// parseNote parses a note of the size of a signed checkpoint. It lists all signatures as
// unverified.
func parseNote(signed []byte) (*note.Note, error) {
	if len(signed) > maxCheckpoint {
		return nil, fmt.Errorf("%w checkpoint: %d bytes, at most %d are allowed", ErrMalformed, len(signed), maxCheckpoint)
	}
	_, err := note.Open(signed, nil)
	var unverified *note.UnverifiedNoteError
	if !errors.As(err, &unverified) {
		return nil, fmt.Errorf("%w signed note", ErrMalformed)
	}
	for _, s := range unverified.Note.UnverifiedSigs {
		// package note accepts base64 with stray bits
		if _, ok := parseBase64(s.Base64); !ok || !validName(s.Name) {
			return nil, fmt.Errorf("%w signature line", ErrMalformed)
		}
	}
	return unverified.Note, nil
}

// OpenCheckpoint parses and verifies a signed checkpoint. One of keys MUST have signed it in the
// name of the checkpoint's origin; keys MUST have the type Ed25519. A signature that claims to be
// by one of keys and does not verify is an error, even beside valid ones. The note lists signatures
// by other keys as unverified. Errors wrap ErrMalformed or ErrSignature, except for a key of
// another type.
func OpenCheckpoint(signed []byte, keys ...VKey) (Checkpoint, *note.Note, error) {
	c, n, err := ParseSignedCheckpoint(signed)
	if err == nil {
		err = verify(n, c, keys)
	}
	if err != nil {
		return Checkpoint{}, nil, err
	}
	return c, n, nil
}

// OpenExtendedCheckpoint is OpenCheckpoint of one that may have extension lines.
func OpenExtendedCheckpoint(signed []byte, keys ...VKey) (ExtendedCheckpoint, *note.Note, error) {
	c, n, err := ParseSignedExtendedCheckpoint(signed)
	if err == nil {
		err = verify(n, c.Checkpoint, keys)
	}
	if err != nil {
		return ExtendedCheckpoint{}, nil, err
	}
	return c, n, nil
}

// verify checks the signatures of the note of a checkpoint and lists those by keys as verified.
func verify(n *note.Note, c Checkpoint, keys []VKey) error {
	if i := slices.IndexFunc(keys, func(k VKey) bool { return k.Type != TypeEd25519 || len(k.Public) != ed25519.PublicKeySize }); i >= 0 {
		return fmt.Errorf("tlog: key %d, of %q, is not an Ed25519 key of a log", i, keys[i].Name)
	}
	signedByOrigin := false
	var others []note.Signature
	for _, s := range n.UnverifiedSigs {
		switch {
		case !slices.ContainsFunc(keys, func(k VKey) bool { return k.matches(s) }):
			others = append(others, s)
		case slices.ContainsFunc(keys, func(k VKey) bool { return k.matches(s) && k.verifies(n.Text, s) }):
			n.Sigs = append(n.Sigs, s)
			signedByOrigin = signedByOrigin || s.Name == c.Origin
		default:
			return fmt.Errorf("%w: signature by %q on a checkpoint of log %q", ErrSignature, s.Name, c.Origin)
		}
	}
	if !signedByOrigin {
		return fmt.Errorf("%w: checkpoint of log %q", ErrSignature, c.Origin)
	}
	n.UnverifiedSigs = others
	return nil
}
