package strictjson

import (
	"bytes"
	"strconv"
)

// TooDeep is the reason of the fault that a container nests deeper than maxDepth.
func TooDeep(maxDepth int) string { return "nested deeper than " + strconv.Itoa(maxDepth) }

// within demands that the containers of src, which is not read yet, nest at most limit deep. It
// says where they do not as nested deeper than reported.
func (r *Reader) within(limit, reported int) error {
	if !deeper(r.src, limit) {
		return nil
	}
	for {
		if _, err := r.dec.ReadToken(); err != nil {
			return asError(err)
		}
		switch r.dec.StackDepth() {
		case 0:
			return r.End() // deeper counted what follows the value
		case limit + 1:
			return r.Fault(TooDeep(reported))
		}
	}
}

// deeper reports whether the containers of src nest deeper than limit. Where src is not valid it
// may be wrong in either way.
func deeper(src []byte, limit int) bool {
	// These two answer for most of what is read, at a fraction of the cost of the third.
	if len(src) <= limit || bytes.Count(src, []byte("{"))+bytes.Count(src, []byte("[")) <= limit {
		return false
	}
	depth, inString := 0, false
	for i := 0; i < len(src); i++ {
		switch b := src[i]; {
		case inString && b == '\\':
			i++
		case b == '"':
			inString = !inString
		case inString:
		case b == '{' || b == '[':
			if depth++; depth > limit {
				return true
			}
		case b == '}' || b == ']':
			depth--
		}
	}
	return false
}
