package strictjson

import (
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Error has the position and the reason of a refusal. It contains the names of members on the path
// to that position, and a few characters of the text there.
type Error struct {
	// a JSON Pointer (RFC 6901) to the member or element at fault; "" is the whole value. A long
	// one is cut and ends in …
	Pointer string
	Reason  string // at most a few hundred bytes
}

// Error reads well after a word such as malformed.
func (e *Error) Error() string {
	if e.Pointer == "" {
		return "JSON: " + e.Reason
	}
	return "JSON at " + strconv.Quote(e.Pointer) + ": " + e.Reason
}

// Within is e as seen from a value in which the refused one stands at pointer.
func (e *Error) Within(pointer string) *Error { return newError(pointer+e.Pointer, e.Reason) }

// newError cuts the pointer, which is as long as the names in it are.
func newError(pointer, reason string) *Error {
	const most, cut = 256, "…"
	if len(pointer) > most+len(cut) {
		pointer = strings.ToValidUTF8(pointer[:most], "") + cut
	}
	return &Error{pointer, reason}
}

// asError translates what the decoder says.
func asError(err error) *Error {
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return &Error{Reason: "there is no value"} // io.EOF: nothing else can fail in memory
	}
	reason := strings.TrimPrefix(syntax.Err.Error(), "jsontext: ")
	if errors.Is(syntax.Err, io.ErrUnexpectedEOF) {
		reason = "unexpected end"
	}
	return newError(string(syntax.JSONPointer), reason+" (byte "+strconv.FormatInt(syntax.ByteOffset, 10)+")")
}
