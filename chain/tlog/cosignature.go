package tlog

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"golang.org/x/mod/sumdb/note"
)

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
