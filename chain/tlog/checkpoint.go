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

// ParseCheckpoint parses the text of a checkpoint, without signatures. Errors wrap ErrMalformed.
func ParseCheckpoint(text string) (Checkpoint, error) {
	read, err := torchwood.ParseCheckpoint(text)
	c := Checkpoint{read.Origin, Tree{read.N, read.Hash}}
	// torchwood accepts extension lines, and a root with stray bits or line breaks; Text has
	// neither
	if err != nil || !validOrigin(c.Origin) || c.Size > maxSize || c.Text() != text {
		return Checkpoint{}, errCheckpoint
	}
	return c, nil
}

// ParseSignedCheckpoint parses a signed checkpoint without checking its signatures, which the note
// lists as unverified. Callers use it to find the keys of the origin. Errors wrap ErrMalformed.
func ParseSignedCheckpoint(signed []byte) (Checkpoint, *note.Note, error) {
	if len(signed) > maxCheckpoint {
		return Checkpoint{}, nil, fmt.Errorf("%w checkpoint: %d bytes, at most %d are allowed", ErrMalformed, len(signed), maxCheckpoint)
	}
	_, err := note.Open(signed, nil)
	var unverified *note.UnverifiedNoteError
	if !errors.As(err, &unverified) {
		return Checkpoint{}, nil, fmt.Errorf("%w signed note", ErrMalformed)
	}
	n := unverified.Note
	for _, s := range n.UnverifiedSigs { // package note accepts base64 with stray bits
		if _, ok := parseBase64(s.Base64); !ok || !validName(s.Name) {
			return Checkpoint{}, nil, fmt.Errorf("%w signature line", ErrMalformed)
		}
	}
	c, err := ParseCheckpoint(n.Text)
	return c, n, err
}

// OpenCheckpoint parses and verifies a signed checkpoint. One of keys MUST have signed it in the
// name of the checkpoint's origin; keys MUST have the type Ed25519. A signature that claims to be
// by one of keys and does not verify is an error, even beside valid ones. The note lists signatures
// by other keys as unverified. Errors wrap ErrMalformed or ErrSignature, except for a key of
// another type.
func OpenCheckpoint(signed []byte, keys ...VKey) (Checkpoint, *note.Note, error) {
	if i := slices.IndexFunc(keys, func(k VKey) bool { return k.Type != TypeEd25519 || len(k.Public) != ed25519.PublicKeySize }); i >= 0 {
		return Checkpoint{}, nil, fmt.Errorf("tlog: key %d, of %q, is not an Ed25519 key of a log", i, keys[i].Name)
	}
	c, n, err := ParseSignedCheckpoint(signed)
	if err != nil {
		return Checkpoint{}, nil, err
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
			return Checkpoint{}, nil, fmt.Errorf("%w: signature by %q on a checkpoint of log %q", ErrSignature, s.Name, c.Origin)
		}
	}
	if !signedByOrigin {
		return Checkpoint{}, nil, fmt.Errorf("%w: checkpoint of log %q", ErrSignature, c.Origin)
	}
	n.UnverifiedSigs = others
	return c, n, nil
}
