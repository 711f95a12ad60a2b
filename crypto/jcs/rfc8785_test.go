package jcs_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
)

const maxDepth = 128

// The examples of RFC 8785, as its authors publish them, and those that gowebpki/jcs adds (the bare
// values).
func TestPublishedVectors(t *testing.T) {
	t.Parallel()
	for module, atLeast := range map[string]int{
		"github.com/cyberphone/json-canonicalization": 6,
		"github.com/gowebpki/jcs":                     10,
	} {
		data := filepath.Join(moduleDir(t, module), "testdata")
		inputs, err := filepath.Glob(filepath.Join(data, "input", "*.json"))
		if err != nil || len(inputs) < atLeast {
			t.Fatalf("%s has %d inputs (%v), want at least %d", module, len(inputs), err, atLeast)
		}
		for _, path := range inputs {
			name := filepath.Base(path)
			t.Run(module+"/"+name, func(t *testing.T) {
				t.Parallel()
				input := readFile(t, path)
				if name == "values.json" {
					input = respellValues(t, input)
				}
				got, err := jcs.Append(nil, input, maxDepth)
				if err != nil {
					t.Fatal(err)
				}
				if want := readFile(t, filepath.Join(data, "output", name)); !bytes.Equal(got, want) {
					t.Errorf("got  %s\nwant %s", got, want)
				}
				dump, err := os.ReadFile(filepath.Join(data, "outhex", strings.TrimSuffix(name, ".json")+".txt"))
				if errors.Is(err, os.ErrNotExist) {
					return // one of the bare values has none
				}
				want, err := hex.DecodeString(strings.Join(strings.Fields(string(dump)), ""))
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("got  %x\nwant %x", got, want)
				}
			})
		}
	}
}

// respellValues shows that the one number in the RFC's examples which no double holds is refused
// here, and then gives it the spelling of the double that the RFC rounds it to.
func respellValues(t *testing.T, input []byte) []byte {
	t.Helper()
	const lossy, exact = "333333333.33333329", "333333333.3333333"
	_, err := jcs.Append(nil, input, maxDepth)
	var refused *strictjson.Error
	if !errors.As(err, &refused) || refused.Pointer != "/numbers/0" || !strings.Contains(refused.Reason, lossy) {
		t.Fatalf("values.json as published: %v, want a refusal of %s at /numbers/0", err, lossy)
	}
	return bytes.Replace(input, []byte(lossy), []byte(exact), 1)
}

// Appendix B of RFC 8785: IEEE 754 bits and their spelling.
func TestNumberSamples(t *testing.T) {
	t.Parallel()
	for _, sample := range []struct {
		bits uint64
		want string
	}{
		{0x0000000000000000, "0"},
		{0x8000000000000000, "0"},
		{0x0000000000000001, "5e-324"},
		{0x8000000000000001, "-5e-324"},
		{0x7fefffffffffffff, "1.7976931348623157e+308"},
		{0xffefffffffffffff, "-1.7976931348623157e+308"},
		{0x4340000000000000, "9007199254740992"},
		{0xc340000000000000, "-9007199254740992"},
		{0x4430000000000000, "295147905179352830000"},
		{0x44b52d02c7e14af5, "9.999999999999997e+22"},
		{0x44b52d02c7e14af6, "1e+23"},
		{0x44b52d02c7e14af7, "1.0000000000000001e+23"},
		{0x444b1ae4d6e2ef4e, "999999999999999700000"},
		{0x444b1ae4d6e2ef4f, "999999999999999900000"},
		{0x444b1ae4d6e2ef50, "1e+21"},
		{0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
		{0x3eb0c6f7a0b5ed8d, "0.000001"},
		{0x41b3de4355555553, "333333333.3333332"},
		{0x41b3de4355555554, "333333333.33333325"},
		{0x41b3de4355555555, "333333333.3333333"},
		{0x41b3de4355555556, "333333333.3333334"},
		{0x41b3de4355555557, "333333333.33333343"},
		{0xbecbf647612f3696, "-0.0000033333333333333333"},
		{0x43143ff3c1cb0959, "1424953923781206.2"},
	} {
		f := math.Float64frombits(sample.bits)
		for _, format := range []byte{'e', 'f', 'g'} { // three spellings of the same decimal value
			lexeme := strconv.FormatFloat(f, format, -1, 64)
			got, err := jcs.Append(nil, []byte(lexeme), maxDepth)
			if err != nil || string(got) != sample.want {
				t.Errorf("%x spelt %s: got %s, %v; want %s", sample.bits, lexeme, got, err, sample.want)
			}
		}
	}
}

func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("go list -m %s: %v", module, err)
	}
	return strings.TrimSpace(string(out))
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
