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
	keyIDSize     = 4 // bytes, before each signature
	timestampSize = 8 // bytes, before the signature of a cosigner
)

// Cosignature is the statement of a cosigner that a checkpoint is of the largest tree of its log
// that it had seen at a time, and that all it had seen before are prefixes of that.
type Cosignature struct {
	Key  VKey
	Time int64  // Unix seconds, above 0
	Line string // the signature line, with its line break
}

// Cosign makes the cosignature of a cosigner over the checkpoint. The cosigner's name is not
// signed, so each must have a key of its own.
func (c Checkpoint) Cosign(name string, private ed25519.PrivateKey, at time.Time) (Cosignature, error) {
	seconds := at.Unix()
	if !validName(name) || !validOrigin(c.Origin) || c.Size < 0 || c.Size > maxSize || seconds <= 0 {
		return Cosignature{}, fmt.Errorf("tlog: no cosignature of %q at %d for size %d of %q", name, seconds, c.Size, c.Origin)
	}
	key := VKey{name, TypeCosignature, private.Public().(ed25519.PublicKey)}
	blob := binary.BigEndian.AppendUint32(nil, key.ID())
	blob = binary.BigEndian.AppendUint64(blob, uint64(seconds))
	blob = append(blob, ed25519.Sign(private, cosigned(c.Text(), seconds))...)
	return Cosignature{key, seconds, signatureLine(name, base64.StdEncoding.EncodeToString(blob))}, nil
}

// cosigned is what the signature of a cosigner is over.
func cosigned(text string, seconds int64) []byte {
	return []byte("cosignature/v1\ntime " + strconv.FormatInt(seconds, 10) + "\n" + text)
}

// ParseCosignatures reads signature lines as a witness answers with them, and returns those of
// keys, cosigners' all, that verify over the checkpoint. Lines of other keys are ignored. Errors
// wrap ErrMalformed, or ErrSignature when a line of one of keys does not verify; with that come
// those that do.
func (c Checkpoint) ParseCosignatures(lines []byte, keys ...VKey) ([]Cosignature, error) {
	read, n, err := ParseSignedCheckpoint(append([]byte(c.Text()+"\n"), lines...))
	if err == nil && read != c {
		err = fmt.Errorf("%w: signature lines", ErrMalformed)
	}
	if err != nil {
		return nil, err
	}
	return c.cosignatures(n.UnverifiedSigs, keys)
}

// cosignatures returns those of the signatures that keys have made; err wraps ErrSignature when one
// claims to be and is not.
func (c Checkpoint) cosignatures(signatures []note.Signature, keys []VKey) (list []Cosignature, err error) {
	for _, s := range signatures {
		of := slices.DeleteFunc(slices.Clone(keys), func(k VKey) bool { return k.Type != TypeCosignature || !k.claimedBy(s) })
		if len(of) == 0 {
			continue
		}
		i := slices.IndexFunc(of, func(k VKey) bool { return k.verifies(c.Text(), s) })
		if i < 0 {
			err = fmt.Errorf("%w: cosignature of %q for size %d of %q", ErrSignature, s.Name, c.Size, c.Origin)
			continue
		}
		seconds, _ := timestamp(s)
		list = append(list, Cosignature{of[i], seconds, signatureLine(s.Name, s.Base64)})
	}
	return list, err
}

// timestamp is when a cosignature says that it was made, and its bare signature; none when it is
// not of that form.
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

// signatureLine is a line below a checkpoint.
func signatureLine(name, base64 string) string { return "— " + name + " " + base64 + "\n" }
