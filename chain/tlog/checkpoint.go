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

// maxCheckpoint bounds a signed checkpoint: 16 signatures, as many as signed-note demands, of
// post-quantum length.
const maxCheckpoint = 128 << 10

var errCheckpoint = fmt.Errorf("%w: checkpoint", ErrMalformed)

// Checkpoint is what a log signs: that its tree of this size has this root.
type Checkpoint struct {
	Origin string
	Tree
}

// Text is what signatures are over.
func (c Checkpoint) Text() string {
	return c.Origin + "\n" + strconv.FormatInt(c.Size, 10) + "\n" + c.Root.String() + "\n"
}

// Sign returns the checkpoint signed by the log itself, with its origin as the name of the key. The
// origin must be a name.
func (c Checkpoint) Sign(private ed25519.PrivateKey) ([]byte, error) {
	if !validName(c.Origin) || c.Size < 0 || c.Size > maxSize {
		return nil, fmt.Errorf("tlog: no checkpoint of size %d for origin %q", c.Size, c.Origin)
	}
	return note.Sign(&note.Note{Text: c.Text()}, newSigner(c.Origin, private))
}

// ParseCheckpoint reads the text of a checkpoint without its signatures. Errors wrap ErrMalformed.
func ParseCheckpoint(text string) (Checkpoint, error) {
	read, err := torchwood.ParseCheckpoint(text)
	c := Checkpoint{read.Origin, Tree{read.N, read.Hash}}
	// torchwood accepts extension lines and a root with stray bits or line breaks: Text has neither
	if err != nil || !validOrigin(c.Origin) || c.Size > maxSize || c.Text() != text {
		return Checkpoint{}, errCheckpoint
	}
	return c, nil
}

// ParseSignedCheckpoint reads a signed checkpoint whose signatures it does not check: to find the
// keys of its origin. Errors wrap ErrMalformed.
func ParseSignedCheckpoint(signed []byte) (Checkpoint, *note.Note, error) {
	if len(signed) > maxCheckpoint {
		return Checkpoint{}, nil, fmt.Errorf("%w: a checkpoint of %d bytes", ErrMalformed, len(signed))
	}
	_, err := note.Open(signed, nil)
	var unverified *note.UnverifiedNoteError
	if !errors.As(err, &unverified) {
		return Checkpoint{}, nil, fmt.Errorf("%w: signed note", ErrMalformed)
	}
	n := unverified.Note
	for _, s := range n.UnverifiedSigs { // x/mod takes base64 with stray bits
		if _, ok := parseBase64(s.Base64); !ok || !validName(s.Name) {
			return Checkpoint{}, nil, fmt.Errorf("%w: signature line", ErrMalformed)
		}
	}
	c, err := ParseCheckpoint(n.Text)
	return c, n, err
}

// OpenCheckpoint reads a signed checkpoint that one of keys must have signed, Ed25519 keys all, in
// the name of the checkpoint's origin. A signature that says it is of one of them and does not
// verify is refused, whatever stands beside it. Signatures of other keys are ignored, and are in
// the note as unverified. Errors wrap ErrMalformed or ErrSignature, but for a key of another type.
func OpenCheckpoint(signed []byte, keys ...VKey) (Checkpoint, *note.Note, error) {
	if i := slices.IndexFunc(keys, func(k VKey) bool { return k.Type != TypeEd25519 || len(k.Public) != ed25519.PublicKeySize }); i >= 0 {
		return Checkpoint{}, nil, fmt.Errorf("tlog: key %d of %q is no Ed25519 key of a log", i, keys[i].Name)
	}
	c, n, err := ParseSignedCheckpoint(signed)
	if err != nil {
		return Checkpoint{}, nil, err
	}
	byOrigin := false
	var others []note.Signature
	for _, s := range n.UnverifiedSigs {
		switch {
		case !slices.ContainsFunc(keys, func(k VKey) bool { return k.claimedBy(s) }):
			others = append(others, s)
		case slices.ContainsFunc(keys, func(k VKey) bool { return k.claimedBy(s) && k.verifies(n.Text, s) }):
			n.Sigs = append(n.Sigs, s)
			byOrigin = byOrigin || s.Name == c.Origin
		default:
			return Checkpoint{}, nil, fmt.Errorf("%w: signature of %q under the checkpoint of %q", ErrSignature, s.Name, c.Origin)
		}
	}
	if !byOrigin {
		return Checkpoint{}, nil, fmt.Errorf("%w: checkpoint of %q", ErrSignature, c.Origin)
	}
	n.UnverifiedSigs = others
	return c, n, nil
}
