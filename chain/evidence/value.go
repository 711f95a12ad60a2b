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

// value is a part of a file and its name in errors. Its methods check a format and store the first
// error in form.
type value struct {
	form *form
	name string
	src  []byte // nil if absent
}

// form has the first format error of a file.
type form struct{ err error }

func (f *form) refuse(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

// object checks for an object with all members of must, any of may, and no others.
func (v value) object(must []string, may ...string) map[string]value {
	members := make(map[string]value, len(must)+len(may))
	err := strictjson.EachMember(v.src, maxDepth, func(name, src []byte) {
		if !slices.Contains(must, string(name)) && !slices.Contains(may, string(name)) {
			v.form.refuse("%s has an unknown member %.100q", v.name, name)
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

// list checks for an array of at most limit elements.
func (v value) list(limit int) (elements []value) {
	count := 0
	err := strictjson.EachElement(v.src, maxDepth, func(src []byte) {
		if count++; count <= limit {
			elements = append(elements, value{v.form, fmt.Sprintf("%s[%d]", v.name, len(elements)), src})
		}
	})
	if err != nil || count > limit {
		v.form.refuse("%s is not an array of at most %d elements", v.name, limit)
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

// like checks for a string that matches form.
func (v value) like(form func() *regexp.Regexp, what string) string {
	s := v.text()
	if !form().MatchString(s) {
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

// hex checks for lower-case hex of len(dst) bytes.
func (v value) hex(dst []byte) {
	s := v.text()
	data, err := hex.DecodeString(s)
	if err != nil || len(data) != len(dst) || hex.EncodeToString(data) != s {
		v.form.refuse("%s is not lower-case hex of %d bytes", v.name, len(dst))
		return
	}
	copy(dst, data)
}

// base64url checks for canonical base64url of size bytes without padding.
func (v value) base64url(size int) []byte {
	s := v.text()
	data, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(data) != size || base64.RawURLEncoding.EncodeToString(data) != s {
		v.form.refuse("%s is not base64url of %d bytes", v.name, size)
		return make([]byte, size)
	}
	return data
}

// root checks for a hash in canonical base64.
func (v value) root() tlog.Hash {
	h, ok := tlog.ParseHash(v.text())
	if !ok {
		v.form.refuse("%s is not a hash in base64", v.name)
	}
	return h
}
