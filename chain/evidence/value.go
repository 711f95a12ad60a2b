package evidence

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"

	"attestd/chain/tlog"
	"attestd/crypto/strictjson"
)

// MaxSize is the size of the longest file, in bytes.
const MaxSize = 64 << 20

const (
	maxDepth   = 160 // a payload may nest 128 deep
	maxNumber  = 1<<53 - 1
	maxKeys    = 10_000
	maxSteps   = 60
	maxCosign  = 16
	maxEntries = 10_000
)

// value is a part of a file, with the name that it has for people. Its methods demand a form; the
// first that is not met stays in form.
type value struct {
	form *form
	name string
	src  []byte // nil where it is absent
}

// form is how reading a file goes.
type form struct{ err error }

func (f *form) refuse(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

// object demands an object that has all of must, of may perhaps some, and nothing else.
func (v value) object(must []string, may ...string) map[string]value {
	members := make(map[string]value, len(must)+len(may))
	err := strictjson.EachMember(v.src, maxDepth, func(name, src []byte) {
		if !slices.Contains(must, string(name)) && !slices.Contains(may, string(name)) {
			v.form.refuse("%s has a member %.100q", v.name, name)
			return
		}
		members[string(name)] = value{v.form, v.name + "." + string(name), src}
	})
	if err != nil {
		v.form.refuse("%s is not an object", v.name)
	}
	for _, name := range slices.Concat(must, may) {
		if _, ok := members[name]; !ok {
			members[name] = value{v.form, v.name + "." + name, nil}
			if slices.Contains(must, name) {
				v.form.refuse("%s has no member %q", v.name, name)
			}
		}
	}
	return members
}

// list demands an array of most elements at most.
func (v value) list(most int) (elements []value) {
	count := 0
	err := strictjson.EachElement(v.src, maxDepth, func(src []byte) {
		if count++; count <= most {
			elements = append(elements, value{v.form, fmt.Sprintf("%s[%d]", v.name, len(elements)), src})
		}
	})
	if err != nil || count > most {
		v.form.refuse("%s is not an array of at most %d", v.name, most)
		return nil
	}
	return elements
}

func (v value) text() string {
	s, ok := strictjson.AsString(v.src)
	if !ok {
		v.form.refuse("%s is not a string", v.name)
	}
	return s
}

// like demands a string of a form.
func (v value) like(form *regexp.Regexp, what string) string {
	s := v.text()
	if !form.MatchString(s) {
		v.form.refuse("%s is not %s", v.name, what)
	}
	return s
}

func (v value) number() int64 {
	n, ok := strictjson.AsInteger(v.src)
	if !ok || n > maxNumber {
		v.form.refuse("%s is not a whole number from 0 to 2⁵³-1", v.name)
		return 0
	}
	return n
}

// hex demands lower-case hex of that many bytes as dst has.
func (v value) hex(dst []byte) {
	s := v.text()
	data, err := hex.DecodeString(s)
	if err != nil || len(data) != len(dst) || hex.EncodeToString(data) != s {
		v.form.refuse("%s is not lower-case hex of %d bytes", v.name, len(dst))
		return
	}
	copy(dst, data)
}

// base64url demands base64url without padding, of size bytes, in its only spelling.
func (v value) base64url(size int) []byte {
	s := v.text()
	data, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(data) != size || base64.RawURLEncoding.EncodeToString(data) != s {
		v.form.refuse("%s is not base64url of %d bytes", v.name, size)
		return make([]byte, size)
	}
	return data
}

// root demands a hash in standard base64, in its only spelling.
func (v value) root() tlog.Hash {
	h, ok := tlog.ParseHash(v.text())
	if !ok {
		v.form.refuse("%s is not a hash in base64", v.name)
	}
	return h
}
