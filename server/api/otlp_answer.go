package api

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"attestd/crypto/jcs"
	"attestd/server/httpapi"
	"attestd/service/telemetry"
)

// The media types of OTLP/HTTP.
const (
	protobufType = "application/x-protobuf"
	jsonType     = "application/json"
)

// exportEncoding returns the encoding of the body. Without a media type it is JSON, as everywhere.
func exportEncoding(c *httpapi.Call) (telemetry.Encoding, error) {
	switch {
	case httpapi.MediaType(c.Header) == protobufType:
		return telemetry.Protobuf, nil
	case httpapi.MediaType(c.Header) == jsonType, c.Header.Get("Content-Type") == "":
		return telemetry.JSON, nil
	}
	return 0, httpapi.Fail(http.StatusUnsupportedMediaType, "Unsupported Content-Type: send "+protobufType+" or "+jsonType)
}

// answerExport responds with ExportTraceServiceResponse or ExportLogsServiceResponse, which differ
// in the name of a member: how many items were refused, and why.
func answerExport(c *httpapi.Call, signal telemetry.Signal, encoding telemetry.Encoding, items []telemetry.Item) error {
	refused, why := refusedItems(items)
	if encoding == telemetry.JSON {
		if refused == 0 {
			return c.Bytes(http.StatusOK, []byte("{}\n"))
		}
		member := map[telemetry.Signal]string{telemetry.Traces: "rejectedSpans", telemetry.Logs: "rejectedLogRecords"}[signal]
		answer := []byte(`{"partialSuccess":{"` + member + `":"` + strconv.Itoa(refused) + `","errorMessage":`)
		return c.Bytes(http.StatusOK, append(jcs.AppendString(answer, why), "}}\n"...))
	}
	var answer []byte
	if refused > 0 {
		partial := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(refused))
		partial = protowire.AppendString(protowire.AppendTag(partial, 2, protowire.BytesType), why)
		answer = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial)
	}
	return protobuf(c, http.StatusOK, answer)
}

// maxReasons is how many reasons an answer names.
const maxReasons = 5

// refusedItems returns how many items are refused, and for which reasons, the most frequent first.
func refusedItems(items []telemetry.Item) (refused int, why string) {
	counts := map[string]int{}
	for i := range items {
		if reason := items[i].Refused; reason != "" {
			refused++
			counts[reason]++
		}
	}
	reasons := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	var messages []string
	for _, reason := range reasons[:min(len(reasons), maxReasons)] {
		messages = append(messages, fmt.Sprintf("%d refused: %s", counts[reason], reason))
	}
	if more := len(reasons) - maxReasons; more > 0 {
		messages = append(messages, fmt.Sprintf("and %d other reasons", more))
	}
	return refused, strings.Join(messages, "; ")
}

// refuseExport sends an error as google.rpc.Status in the encoding of the request. If that has none
// of OTLP, it returns false.
func refuseExport(c *httpapi.Call, e *httpapi.Error) bool {
	kind := httpapi.MediaType(c.Header)
	if kind != protobufType && kind != jsonType {
		return false
	}
	if h := c.W.Header(); e.Status == http.StatusServiceUnavailable && h.Get("Retry-After") == "" {
		// Every item has a key, so an export may be repeated regardless of its outcome.
		h.Set("Retry-After", map[bool]string{true: "1", false: "30"}[e.Code == "OUTCOME_UNKNOWN"])
	}
	message := e.Message
	if e.Code != "" {
		message += " (" + e.Code + ")"
	}
	if kind == jsonType {
		quoted := jcs.AppendString(nil, message)
		// with error, as all answers have it; readers of Status ignore it
		_ = c.Bytes(e.Status, fmt.Appendf(nil, `{"code":%d,"message":%s,"error":%s}`+"\n", statusCode(e.Status), quoted, quoted))
		return true
	}
	answer := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), statusCode(e.Status))
	_ = protobuf(c, e.Status, protowire.AppendString(protowire.AppendTag(answer, 2, protowire.BytesType), message))
	return true
}

// statusCode returns the google.rpc.Code of a status.
func statusCode(status int) uint64 {
	switch status {
	case http.StatusUnauthorized:
		return 16 // UNAUTHENTICATED
	case http.StatusForbidden:
		return 7 // PERMISSION_DENIED
	case http.StatusTooManyRequests, http.StatusInsufficientStorage:
		return 8 // RESOURCE_EXHAUSTED
	case http.StatusInternalServerError:
		return 13 // INTERNAL
	case http.StatusServiceUnavailable:
		return 14 // UNAVAILABLE
	}
	return 3 // INVALID_ARGUMENT
}

// protobuf responds with an encoded message. It ignores errors, which mean that the client is gone.
func protobuf(c *httpapi.Call, status int, message []byte) error {
	c.W.Header().Set("Content-Type", protobufType)
	c.SendComplete(status, message)
	return nil
}
