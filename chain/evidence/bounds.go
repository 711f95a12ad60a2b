package evidence

import "fmt"

// maxWeight bounds what a file makes its reader hold; see weight in the format.
const maxWeight = 9_000_000

// Bounded demands, before anything is read, that a JSON text is no heavier than maxWeight and nests
// no deeper than maxDepth. Of a text that is not valid it may say either: whoever reads the text
// refuses it.
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
