package printable

import (
	"bytes"
	"encoding/json"
	"io"
)

// JSON writes a value as one line of JSON, with < and > unescaped. Unprintable characters occur
// only in strings, where their escapes have the same value.
func JSON(w io.Writer, value any) error {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return err
	}
	_, err := io.WriteString(w, Text(string(bytes.TrimSuffix(line.Bytes(), []byte("\n"))))+"\n")
	return err
}
