package evidence

import "fmt"

// maxWeight bounds the memory that a parsed file needs; see weight in the format.
const maxWeight = 9_000_000

// Bounded checks that a JSON text weighs at most maxWeight and nests at most maxDepth deep. Its
// result for invalid JSON is arbitrary, because the parser refuses that later.
func Bounded(src []byte) error {
	weight, depth := 0, 0
	for i := 0; i < len(src); i++ {
		switch src[i] {
		case '{', '[':
			weight, depth = weight+2, depth+1
		case '}', ']':
			depth--
		case ',', ':':
			weight += 4
		case '"':
			weight += 2
			for i++; i < len(src) && src[i] != '"' && weight <= maxWeight; i++ {
				if src[i] == '\\' {
					weight += 4
					i++
				}
			}
		}
		if depth < 0 || depth > maxDepth {
			return fmt.Errorf("it nests deeper than %d", maxDepth)
		}
		if weight > maxWeight {
			return fmt.Errorf("it weighs more than %d", maxWeight)
		}
	}
	return nil
}
