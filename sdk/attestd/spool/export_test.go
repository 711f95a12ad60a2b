package spool

import (
	"encoding/json"
	"fmt"
)

// Checked is a line of a file in a folder.
func Checked(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%08x %s\n", checksum(text), text)
}
