package tlog_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"attestd/chain/tlog"
)

// The grammars of checkpoints and tile paths, independent of any parser.
var (
	checkpointForm = regexp.MustCompile(`^[^\x00-\x1f\x7f-\x{9f}]+\n(0|[1-9][0-9]{0,18})\n[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=\n$`)
	tileForm       = regexp.MustCompile(`^tile/(entries|[1-5]?[0-9]|6[0-3])/((x00[1-9]|x0[1-9][0-9]|x[1-9][0-9]{2})/(x[0-9]{3}/){0,5})?[0-9]{3}(\.p/([1-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5]))?$`)
)

const maxNumber = 1 << 60 // of sizes and indices

// isCheckpoint reports whether text is a checkpoint without signatures.
func isCheckpoint(text string) bool {
	lines := strings.Split(text, "\n")
	if !checkpointForm.MatchString(text) || len(lines[0]) > 255 || strings.ToValidUTF8(text, "") != text {
		return false
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	return err == nil && size <= maxNumber
}

// isTilePath reports whether path is the canonical one of a tile.
func isTilePath(path string) bool {
	if !tileForm.MatchString(path) {
		return false
	}
	number, _, _ := strings.Cut(strings.SplitN(path, "/", 3)[2], ".p/")
	index, err := strconv.ParseInt(strings.NewReplacer("x", "", "/", "").Replace(number), 10, 64)
	return err == nil && index <= maxNumber
}

// The parsers accept exactly the grammar. The inputs are valid checkpoints and tile paths in which
// one byte was replaced, inserted or removed.
func TestCheckpointAndTilePathGrammar(t *testing.T) {
	t.Parallel()
	for _, valid := range []string{"o\n1152921504606846976\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n", "o\n10\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"} {
		for text := range neighbours(valid) {
			c, err := tlog.ParseCheckpoint(text)
			if (err == nil) != isCheckpoint(text) || err == nil && c.Text() != text {
				t.Errorf("%q is read as %+v: %v", text, c, err)
			}
		}
	}
	for _, valid := range []string{"tile/0/000", "tile/63/x001/x234/067.p/255", "tile/entries/x012/345.p/9", "tile/7/x001/x152/x921/x504/x606/x846/976", "tile/1/x001/000"} {
		for path := range neighbours(valid) {
			tile, err := tlog.ParseTilePath(path)
			if (err == nil) != isTilePath(path) || err == nil && tile.Path() != path {
				t.Errorf("%q is read as %+v: %v", path, tile, err)
			}
		}
	}
}

// neighbours yields every text that has one byte replaced, inserted or removed.
func neighbours(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := range text {
			for b := range 256 {
				if !yield(text[:i]+string([]byte{byte(b)})+text[i+1:]) || !yield(text[:i]+string([]byte{byte(b)})+text[i:]) {
					return
				}
			}
			if !yield(text[:i] + text[i+1:]) {
				return
			}
		}
	}
}
