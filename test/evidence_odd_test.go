package test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"testing"

	bundle "attestd/chain/evidence"

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/crypto/keyring"
	"attestd/crypto/keys"
	"attestd/internal/must"
)

// oddSignatures are the sample with one signature, of each kind in turn, in which S is larger by
// the order of the group: the same equation holds of it, and RFC 8032 refuses it.
func oddSignatures(t *testing.T, whole string) map[string]string {
	t.Helper()
	odd := func(signature []byte) []byte {
		order, _ := new(big.Int).SetString("1000000000000000000000000000000014def9dea2f79cd65812631a5cf5d3ed", 16)
		tail := signature[len(signature)-32:]
		slices.Reverse(tail)
		new(big.Int).Add(new(big.Int).SetBytes(tail), order).FillBytes(tail)
		slices.Reverse(tail)
		return signature
	}
	files := make(map[string]string)
	for _, at := range []string{"record/signature", "status/signature", "logs/0/keys/1/rotation/oldSignature", "logs/1/keys/2/rotation/newSignature",
		"authority/records/1/record/signature", "passport/records/0/record/signature"} {
		files["S above the order in "+at] = text(t, within(parsed(t, whole), strings.Split(at, "/"), func(v any) any {
			signature, err := base64.RawURLEncoding.DecodeString(v.(string))
			must.OK(t, err)
			return base64.RawURLEncoding.EncodeToString(odd(signature))
		}))
	}
	for _, at := range []string{"tlogProof", "authority/records/0/tlogProof"} {
		for line, whose := range []string{"log", "witness"} {
			files["S above the order of the "+whose+" in "+at] = text(t, within(parsed(t, whole), strings.Split(at, "/"), func(v any) any {
				head, below, _ := strings.Cut(v.(string), "\n\n— ")
				lines := strings.Split(below, "\n— ")
				name, blob, _ := strings.Cut(strings.TrimSuffix(lines[line], "\n"), " ")
				signature, err := base64.StdEncoding.DecodeString(blob)
				must.OK(t, err)
				lines[line] = strings.Replace(lines[line], name+" "+blob, name+" "+base64.StdEncoding.EncodeToString(odd(signature)), 1)
				return head + "\n\n— " + strings.Join(lines, "\n— ")
			}))
		}
	}
	return files
}

// oddFile is a file, and the fingerprint of its key.
type oddFile struct{ file, fingerprint string }

// oddKey is a file whose key is the identity of the group: R the identity and S zero is a signature
// by it of whatever there is. Go and OpenSSL accept it; browsers need not, and noble does not.
// Publishing such a key is publishing a private key, and no more.
func oddKey(t *testing.T) oddFile {
	t.Helper()
	identity := append([]byte{1}, make([]byte, 31)...)
	signature := [64]byte{1}
	r := chain.Record{Timestamp: "2026-11-21T09:00:01.000Z", Payload: []byte(`{"agentId":"bot","companyId":"acme","actionType":"pay","payload":1}`), Signature: signature}
	r.Hash = r.ComputeHash([]byte(newSigner(t, "acme").canonical(t, string(r.Payload))))
	leaf := tlog.NewLeaf(r.Hash, signature, tlog.KeyDigest(identity))
	checkpoint := tlog.Checkpoint{Origin: "log.example/v1/log/" + strings.Repeat("1", 32), Tree: tlog.Tree{Size: 1, Root: leaf.Hash()}}
	vkey := tlog.VKey{Name: checkpoint.Origin, Type: tlog.TypeEd25519, Public: identity}
	id := sha256.Sum256(append([]byte(vkey.Name+"\n\x01"), identity...))
	blob := base64.StdEncoding.EncodeToString(append(id[:4], signature[:]...))
	signed := checkpoint.Text() + "\n— " + vkey.Name + " " + blob + "\n"
	f := bundle.File{
		CompanyID: "acme", Log: bundle.Actions, Record: r, HexProof: bundle.HexProof{Root: r.Hash, Size: 1},
		Proof: string(tlog.Proof{Checkpoint: []byte(signed)}.Format()),
		Logs:  []bundle.Log{{Name: bundle.Actions, ID: strings.Repeat("1", 32), Origin: checkpoint.Origin, Keys: []keyring.Key{{Public: identity}}}},
		Keys:  []ed25519.PublicKey{identity}, Witnesses: []string{},
	}
	if !json.Valid(f.JSON()) {
		t.Fatal("the file is no JSON")
	}
	return oddFile{string(f.JSON()), keys.Describe(identity).Fingerprint}
}
