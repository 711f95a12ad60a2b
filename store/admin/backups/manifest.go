package backups

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"attestd/store"
	"attestd/store/headfile"
)

// manifestForm is the version of the format.
const manifestForm = "attestd backup 1"

// maxManifest bounds what is read of a manifest, in bytes.
const maxManifest = 256 << 10

// How the database in a backup was verified.
const (
	// what was read back from the place was decrypted, where it is encrypted, and is this database
	verifiedReadBack = "read-back"
	// the database was verified before it was encrypted, and what was read back from the place has
	// the digest of the result
	verifiedBefore = "before-encryption"
)

// Manifest is written next to a backup when that has been verified. A backup without one is
// unfinished.
type Manifest struct {
	Form     string    `json:"form"`
	Name     string    `json:"name"`
	Database string    `json:"database"` // its ID, 32 hex digits
	Began    time.Time `json:"began"`
	Done     time.Time `json:"done"`
	Program  string    `json:"program"`

	// of the file in the place, and its SHA-256
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// of the database in it
	PlainSize   int64    `json:"plainSize"`
	PlainSHA256 string   `json:"plainSha256"`
	Recipients  []string `json:"recipients,omitempty"`
	Verified    string   `json:"verified"`

	Logs    int    `json:"logs"`
	Records int64  `json:"records"` // of all logs
	Head    string `json:"head"`    // SHA-256 over the heads of all logs; see headDigest
	// heads of the log of the companies and of the longest logs
	Heads []manifestHead `json:"heads"`

	// in a bucket with object lock
	Lock        string     `json:"lock,omitempty"`
	RetainUntil *time.Time `json:"retainUntil,omitempty"`
	Version     string     `json:"version,omitempty"`
}

type manifestHead struct {
	Chain   int64  `json:"chain"`
	Log     string `json:"log"`
	Size    int64  `json:"size"`
	Root    string `json:"root"`
	LogRoot string `json:"logRoot"`
}

func toManifestHead(h headfile.Head) manifestHead {
	return manifestHead{Chain: h.Chain, Log: hex.EncodeToString(h.LogID[:]), Size: h.Size,
		Root: hex.EncodeToString(h.Root[:]), LogRoot: hex.EncodeToString(h.LogRoot[:])}
}

func (m manifestHead) head() (h headfile.Head, err error) {
	h.Chain, h.Size = m.Chain, m.Size
	for _, field := range []struct {
		to   []byte
		text string
	}{{h.LogID[:], m.Log}, {h.Root[:], m.Root}, {h.LogRoot[:], m.LogRoot}} {
		if len(field.text) != 2*len(field.to) {
			return h, errors.New("a head of the manifest is malformed")
		}
		if _, err := hex.Decode(field.to, []byte(field.text)); err != nil {
			return h, err
		}
	}
	return h, nil
}

// readManifest reads the manifest of a backup. It returns fs.ErrNotExist if there is none.
func readManifest(ctx context.Context, p Place, n Name) (m Manifest, err error) {
	r, err := p.Read(ctx, n.manifest(), "")
	if err != nil {
		return m, err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil {
		return m, err
	}
	if len(text) > maxManifest {
		return m, fmt.Errorf("%s is not a manifest: it is too large", p.Address(n.manifest()))
	}
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&m); err != nil {
		return m, fmt.Errorf("%s is not a manifest: %w", p.Address(n.manifest()), err)
	}
	if m.Form != manifestForm || m.Name != n.String() || m.Database != hex.EncodeToString(n.Database[:]) {
		return m, fmt.Errorf("%s is not the manifest of %s", p.Address(n.manifest()), n)
	}
	return m, nil
}

// WasOpened reports whether the database in the backup was verified after it was read back from its
// place, and not only before it was encrypted.
func (m Manifest) WasOpened() bool { return m.Verified == verifiedReadBack }

// heads returns the heads in a manifest.
func (m Manifest) heads() (list []headfile.Head, err error) {
	for _, h := range m.Heads {
		head, err := h.head()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		list = append(list, head)
	}
	return list, nil
}

// maxHeads is the number of heads in a manifest.
const maxHeads = 256

// describe enters the heads of the database in the backup: all by a digest, and the log of the
// companies and the longest ones by themselves.
func (m *Manifest) describe(heads []headfile.Head) {
	m.Logs, m.Records, m.Head, m.Heads = len(heads), 0, headDigest(heads), nil
	for _, h := range heads {
		m.Records += h.Size
	}
	longest := slices.Clone(heads)
	slices.SortStableFunc(longest, func(a, b headfile.Head) int {
		first := func(h headfile.Head) int { return map[bool]int{true: 0, false: 1}[h.Chain == store.CompanyLogChain] }
		return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(b.Size, a.Size), cmp.Compare(a.Chain, b.Chain))
	})
	for _, h := range longest[:min(len(longest), maxHeads)] {
		m.Heads = append(m.Heads, toManifestHead(h))
	}
}

// headDigest is the SHA-256 over the heads of all logs in the order of their chains: of each its
// number and size, 8 bytes big-endian each, and both roots.
func headDigest(heads []headfile.Head) string {
	sum := sha256.New()
	var b []byte
	for _, h := range heads {
		b = binary.BigEndian.AppendUint64(b[:0], uint64(h.Chain))
		b = binary.BigEndian.AppendUint64(b, uint64(h.Size))
		b = append(b, h.Root[:]...)
		b = append(b, h.LogRoot[:]...)
		sum.Write(b)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
