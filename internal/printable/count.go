package printable

import (
	"fmt"
	"strings"
)

// Count returns a number with the name of what is counted, in the plural unless it is one.
func Count[N ~int | ~int64](n N, name string) string {
	if n != 1 {
		if stem, ok := strings.CutSuffix(name, "y"); ok {
			name = stem + "ie"
		}
		name += "s"
	}
	return fmt.Sprintf("%d %s", n, name)
}
