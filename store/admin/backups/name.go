package backups

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"attestd/store/headfile"
)

// Name is the name of a backup. It says to which database the backup belongs, so that several may
// share a place.
type Name struct {
	Database headfile.ID
	// Number of the backup, one more than that of any before it in its place: backups are in the
	// order of their numbers, regardless of clocks.
	Number    int
	Time      time.Time // of its beginning, in seconds
	Nonce     [4]byte   // tells apart what two servers make at the same moment
	Encrypted bool
}

const (
	manifestSuffix = ".json"
	partialSuffix  = ".partial" // in a folder, while it is written and verified
	timeForm       = "20060102T150405Z"
	maxNumber      = 99_999_999
)

var nameForm = regexp.MustCompile(`^attestd-([0-9a-f]{32})-([0-9]{8})-([0-9]{8}T[0-9]{6}Z)-([0-9a-f]{8})\.db(\.age)?$`)

// ParseName parses the name of a backup. Only what String writes is one, so a name never leads out
// of its folder.
func ParseName(text string) (n Name, ok bool) {
	parts := nameForm.FindStringSubmatch(text)
	if parts == nil {
		return n, false
	}
	at, err := time.Parse(timeForm, parts[3])
	if err != nil {
		return n, false
	}
	n.Time, n.Encrypted = at, parts[5] != ""
	n.Number, _ = strconv.Atoi(parts[2])
	_, _ = hex.Decode(n.Database[:], []byte(parts[1]))
	_, _ = hex.Decode(n.Nonce[:], []byte(parts[4]))
	return n, n.String() == text
}

func newName(database headfile.ID, number int, at time.Time, encrypted bool) (Name, error) {
	n := Name{Database: database, Number: number, Time: at.UTC().Truncate(time.Second), Encrypted: encrypted}
	if number > maxNumber || at.Year() > 9999 {
		return n, fmt.Errorf("no backup can come after number %d at %s: move the backups of this place elsewhere",
			number-1, at)
	}
	_, _ = rand.Read(n.Nonce[:]) // it never fails
	return n, nil
}

// String returns the name in its place.
func (n Name) String() string {
	suffix := ".db"
	if n.Encrypted {
		suffix = ".db.age"
	}
	return fmt.Sprintf("attestd-%x-%08d-%s-%x%s", n.Database, n.Number, n.Time.Format(timeForm), n.Nonce, suffix)
}

func (n Name) manifest() string { return n.String() + manifestSuffix }

// compareNames orders names by their numbers, and those of two servers by time.
func compareNames(a, b Name) int {
	return cmp.Or(cmp.Compare(a.Number, b.Number), a.Time.Compare(b.Time), strings.Compare(a.String(), b.String()))
}
