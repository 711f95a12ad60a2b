package attestd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Error is an error response of the service. Programs should use Status and Code, which the API
// reference lists. A call without a response returns another type of error.
type Error struct {
	Status  int
	Code    string // "" if the response has none
	Message string // for people
	Pointer string // JSON Pointer (RFC 6901) to the refused member of the request, or ""
	// place of the mistake in the text of a policy, from 1; 0 if the response has none
	Line, Column int
	RequestID    string        // ID of the cause in the service's log
	RetryAfter   time.Duration // 0 if the response has none
	// Retried states that an earlier attempt of the request had no response, so that it may have
	// had an effect.
	Retried bool
	// Foreign states that the response is not the service's, but that of something before it, such
	// as a gateway's page: it lacks the service's marks, the member error and the header
	// X-Request-ID. Nothing is decided by it: the service may or may not have had the request.
	Foreign bool

	operation string // method and route; paths may contain keys
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
	if e.Foreign {
		text += "; that is no answer of attestd, but of something before it"
	}
	if e.Status >= 500 && e.RequestID != "" {
		text += ", request " + e.RequestID
	}
	return text
}

// Is makes errors.Is compare the non-empty fields of target:
// errors.Is(err, &Error{Code: "AGENT_DISABLED"}). A foreign response is like no other one, so that
// a gateway's 404 is not taken for the service's.
func (e *Error) Is(target error) bool {
	want, ok := target.(*Error)
	return ok && want.Foreign == e.Foreign && (want.Status == 0 || want.Status == e.Status) && (want.Code == "" || want.Code == e.Code)
}

// CredentialError reports that there is no access token for a call, which was not made.
type CredentialError struct{ Err error }

func (e *CredentialError) Error() string { return e.Err.Error() }
func (e *CredentialError) Unwrap() error { return e.Err }

// maxErrorBody is the largest number of bytes read from an error response.
const maxErrorBody = 64 << 10

// wantsHTTPS is what servers of Go answer over a connection without TLS that should have it.
const wantsHTTPS = "Client sent an HTTP request to an HTTPS server"

// readError makes an Error of a response. Of one that is not the service's it ignores the body.
func readError(operation string, answer *http.Response) *Error {
	e := &Error{
		Status:     answer.StatusCode,
		RequestID:  answer.Header.Get("X-Request-ID"),
		RetryAfter: retryAfter(answer.Header.Get("Retry-After"), time.Now()),
		operation:  operation,
	}
	var body struct {
		Error, Code, Pointer string
		Line, Column         int
		Description          string `json:"error_description"`
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxErrorBody))
	// errors of AuthZEN are texts
	if json.Unmarshal(text, &body) != nil && json.Unmarshal(text, &body.Error) != nil {
		body.Error = ""
	}
	if err != nil || body.Error == "" {
		e.Message, e.Foreign = http.StatusText(e.Status), true
		if bytes.HasPrefix(text, []byte(wantsHTTPS)) {
			e.Message += ": the server speaks https, and its URL begins with http://"
		}
		return e
	}
	e.Foreign = e.RequestID == ""
	e.Code, e.Message, e.Pointer, e.Line, e.Column = body.Code, body.Error, body.Pointer, body.Line, body.Column
	if body.Description != "" {
		e.Message += ": " + body.Description
	}
	e.Message = strings.ToValidUTF8(e.Message, "\uFFFD")
	return e
}

// lost returns the error of a call without a complete response. net/http's errors contain the URL,
// whose path may contain a key, so lost wraps only the cause.
func lost(operation string, err error) error {
	var named *url.Error
	if errors.As(err, &named) {
		err = named.Err
	}
	return fmt.Errorf("%s: %w", operation, err)
}
