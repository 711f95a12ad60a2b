package tlog

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

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
// by one of keys and does not verify is an error, even with valid ones. The note lists signatures
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

const (
	keyIDSize     = 4 // bytes before each signature
	timestampSize = 8 // bytes before the signature in a cosignature
)

// Cosignature is a witness's signature on a checkpoint. It states that at Time the checkpoint's
// tree was the largest of its log that the witness had seen, and that all trees that it had seen
// before are prefixes of it.
type Cosignature struct {
	Key  VKey
	Time int64  // Unix seconds, above 0
	Line string // the signature line, with its line break
}

// Cosign returns the cosignature of the witness called name, dated at. The name is not part of what
// is signed, so each witness MUST have a key of its own. It returns an error for a name, a
// checkpoint or a time that has no valid form.
func (c Checkpoint) Cosign(name string, private ed25519.PrivateKey, at time.Time) (Cosignature, error) {
	return ExtendedCheckpoint{Checkpoint: c}.Cosign(name, private, at)
}

// Cosign is Checkpoint.Cosign. The cosignature covers the extension lines too.
func (c ExtendedCheckpoint) Cosign(name string, private ed25519.PrivateKey, at time.Time) (Cosignature, error) {
	seconds := at.Unix()
	if !validName(name) || !validOrigin(c.Origin) || c.Size < 0 || c.Size > maxSize || seconds <= 0 {
		return Cosignature{}, fmt.Errorf("tlog: %q cannot cosign size %d of log %q at %d", name, c.Size, c.Origin, seconds)
	}
	key := VKey{name, TypeCosignature, private.Public().(ed25519.PublicKey)}
	blob := binary.BigEndian.AppendUint32(nil, key.ID())
	blob = binary.BigEndian.AppendUint64(blob, uint64(seconds))
	blob = append(blob, ed25519.Sign(private, cosigned(c.Text(), seconds))...)
	return Cosignature{key, seconds, signatureLine(name, base64.StdEncoding.EncodeToString(blob))}, nil
}

// cosigned returns the message that a cosignature signs.
func cosigned(text string, seconds int64) []byte {
	return []byte("cosignature/v1\ntime " + strconv.FormatInt(seconds, 10) + "\n" + text)
}

// ParseCosignatures parses the signature lines of a witness's answer. It returns the cosignatures
// by one of keys that verify over the checkpoint, and ignores lines by other keys. Errors wrap
// ErrMalformed, or ErrSignature when a line by one of keys does not verify. With ErrSignature it
// also returns the cosignatures that do verify.
func (c Checkpoint) ParseCosignatures(lines []byte, keys ...VKey) ([]Cosignature, error) {
	read, n, err := ParseSignedCheckpoint(append([]byte(c.Text()+"\n"), lines...))
	if err == nil && read != c {
		err = fmt.Errorf("%w signature lines", ErrMalformed)
	}
	if err != nil {
		return nil, err
	}
	return c.cosignatures(n.UnverifiedSigs, keys)
}

// cosignatures returns the cosignatures by one of keys. err wraps ErrSignature when a signature
// claims to be by one of them and does not verify.
func (c Checkpoint) cosignatures(signatures []note.Signature, keys []VKey) (list []Cosignature, err error) {
	for _, s := range signatures {
		// two keys of one name may share a key ID, which has 32 bits
		candidates := slices.DeleteFunc(slices.Clone(keys), func(k VKey) bool { return k.Type != TypeCosignature || !k.matches(s) })
		if len(candidates) == 0 {
			continue
		}
		i := slices.IndexFunc(candidates, func(k VKey) bool { return k.verifies(c.Text(), s) })
		if i < 0 {
			err = fmt.Errorf("%w: cosignature by %q on size %d of log %q", ErrSignature, s.Name, c.Size, c.Origin)
			continue
		}
		seconds, _ := timestamp(s)
		list = append(list, Cosignature{candidates[i], seconds, signatureLine(s.Name, s.Base64)})
	}
	return list, err
}

// timestamp splits a cosignature into its time and its bare signature, which is nil when the
// cosignature is malformed.
func timestamp(s note.Signature) (seconds int64, signature []byte) {
	blob, ok := parseBase64(s.Base64)
	if !ok || len(blob) != keyIDSize+timestampSize+ed25519.SignatureSize {
		return 0, nil
	}
	at := binary.BigEndian.Uint64(blob[keyIDSize:])
	if at == 0 || at > math.MaxInt64 {
		return 0, nil
	}
	return int64(at), blob[keyIDSize+timestampSize:]
}

// signatureLine returns a signature line of a checkpoint.
func signatureLine(name, base64 string) string { return "— " + name + " " + base64 + "\n" }
