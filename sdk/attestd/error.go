package attestd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Error is an answer of the service that is not a success. Programs go by Status and Code; the
// codes stand in the API reference. A call that got no answer returns another error.
type Error struct {
	Status     int
	Code       string        // "" where the service gives none
	Message    string        // for people
	Pointer    string        // JSON Pointer to the member of the request that is refused, or ""
	RequestID  string        // under which the service's log has the cause
	RetryAfter time.Duration // 0 where the service gives none

	operation string // method and route, for no path: keys stand in paths
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %d", e.operation, e.Status)
	if e.Message != "" {
		text += " " + e.Message
	}
	if e.Pointer != "" {
		text += " at " + e.Pointer
	}
	if e.Code != "" {
		text += " (" + e.Code + ")"
	}
	if e.Status >= 500 && e.RequestID != "" {
		text += ", request " + e.RequestID
	}
	return text
}

// Is makes errors.Is find an Error by the members that target has: errors.Is(err, &Error{Code:
// "AGENT_DISABLED"}).
func (e *Error) Is(target error) bool {
	want, ok := target.(*Error)
	return ok && (want.Status == 0 || want.Status == e.Status) && (want.Code == "" || want.Code == e.Code)
}

// maxErrorBody bounds what is read of a refusal; those of the service are short.
const maxErrorBody = 64 << 10

// readError makes an Error of an answer. A body that is not the service's, a proxy's page for
// example, is left out.
func readError(operation string, answer *http.Response) *Error {
	e := &Error{
		Status:     answer.StatusCode,
		RequestID:  answer.Header.Get("X-Request-ID"),
		RetryAfter: retryAfter(answer.Header.Get("Retry-After"), time.Now()),
		operation:  operation,
	}
	var body struct {
		Error, Code, Pointer string
		Description          string `json:"error_description"`
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxErrorBody))
	if err != nil || json.Unmarshal(text, &body) != nil || body.Error == "" {
		e.Message = http.StatusText(e.Status)
		return e
	}
	e.Code, e.Message, e.Pointer = body.Code, body.Error, body.Pointer
	if body.Description != "" {
		e.Message += ": " + body.Description
	}
	e.Message = strings.ToValidUTF8(e.Message, "\uFFFD")
	return e
}

// lost describes a call that got no whole answer. net/http names the URL in its errors, and keys
// stand in paths, so only the cause is kept.
func lost(operation string, err error) error {
	var named *url.Error
	if errors.As(err, &named) {
		err = named.Err
	}
	return fmt.Errorf("%s: %w", operation, err)
}
