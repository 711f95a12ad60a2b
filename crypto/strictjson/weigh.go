package strictjson

import "bytes"

// Weight measures how much memory decoding a text requires, apart from its bytes.
type Weight struct {
	Members  int // most members that the objects have together that are open at one place
	Elements int // elements of all arrays, and empty arrays
	Growing  int // numbers with an exponent, whose canonical form may be longer
	Objects  int
}

// small is a size below which nothing in a text weighs much.
const small = 1 << 10

// Weigh returns the weight of src, in linear time and without allocation. It does not validate: the
// weight of invalid JSON is at least that of the part that a parser reads.
func Weigh(src []byte) (w Weight) {
	if len(src) <= small {
		return w
	}
	type container struct {
		members int
		array   bool
	}
	var open [512]container // more than a caller lets containers nest; what is deeper counts as one
	depth, members := 0, 0
	for i := 0; i < len(src); i++ {
		switch src[i] {
		case '"':
			i = endOfString(src, i)
		case '{', '[':
			depth = min(depth+1, len(open)-1)
			if src[i] == '{' {
				w.Objects++
			}
			members -= open[depth].members
			open[depth] = container{array: src[i] == '['}
			if open[depth].array {
				w.Elements++
			}
		case '}', ']':
			members -= open[depth].members
			open[depth] = container{}
			depth = max(depth-1, 0)
		case ':':
			open[depth].members++
			members++
			w.Members = max(w.Members, members)
		case ',':
			if open[depth].array {
				w.Elements++
			}
		case 'e', 'E':
			if before := src[max(i-1, 0)]; before >= '0' && before <= '9' {
				w.Growing++
			}
		}
	}
	return w
}

// endOfString returns the place of the quote that ends the string at start, or the end of src.
func endOfString(src []byte, start int) int {
	for end := start + 1; ; end++ {
		next := bytes.IndexByte(src[end:], '"')
		if next < 0 {
			return len(src)
		}
		end += next
		slashes := end
		for src[slashes-1] == '\\' { // ends at the opening quote
			slashes--
		}
		if (end-slashes)%2 == 0 {
			return end
		}
	}
}
