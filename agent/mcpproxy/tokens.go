package mcpproxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// tokenAnswers is the transport for requests of tokens. It refuses tokens of a type that the proxy
// does not send, and makes lifetimes whole seconds, as the library needs them.
type tokenAnswers struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t tokenAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err != nil || resp.StatusCode/100 != 2 {
		return resp, err
	}
	text, err := readAll(resp.Body, maxDocument, nil)
	resp.Body.Close()
	if err == nil {
		text, err = readTokenAnswer(text, mediaType(resp.Header))
	}
	if err != nil {
		return nil, err
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return resp, nil
}

// readTokenAnswer checks the answer of a token endpoint (RFC 6749 section 5.1), and returns it in
// the form that the library reads.
func readTokenAnswer(text []byte, kind string) ([]byte, error) {
	if kind == "application/x-www-form-urlencoded" || kind == "text/plain" {
		values, err := url.ParseQuery(string(text))
		if err != nil {
			return text, nil // the library says what is wrong
		}
		return text, checkTokenType(values.Get("token_type"))
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return text, nil // as above
	}
	var tokenType string
	if _ = json.Unmarshal(members["token_type"], &tokenType); tokenType != "" {
		if err := checkTokenType(tokenType); err != nil {
			return nil, err
		}
	}
	life, has := members["expires_in"]
	if !has {
		return text, nil
	}
	seconds, err := strconv.ParseFloat(strings.Trim(string(life), `"`), 64)
	if err != nil || math.IsNaN(seconds) { // the server refuses the token when it has ended
		delete(members, "expires_in")
	} else {
		// 0 would be a token without an end
		members["expires_in"] = strconv.AppendInt(nil, int64(max(1, min(math.Floor(seconds), math.MaxInt32))), 10)
	}
	return json.Marshal(members)
}

// checkTokenType refuses a token that is used otherwise than as a bearer token (RFC 6749 section
// 7.1): one that is bound to a key would be refused at each request.
func checkTokenType(name string) error {
	if name == "" || strings.EqualFold(name, "Bearer") {
		return nil
	}
	return fmt.Errorf("the authorization server gave a token of the type %.40q, and attestd mcp sends bearer tokens alone: "+
		"have it issue bearer tokens for this client", name)
}
