package telemetry

import (
	"encoding/base64"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"

	"attestd/chain/action"
	"attestd/chain/action/mask"
	"attestd/crypto/jcs"
)

// writer writes the payloads of an export. Names of attributes and short values repeat, so what
// follows from them is remembered.
type writer struct {
	recordContent bool // content is recorded and not hashed
	names         map[string]nameFacts
	texts         map[string][]byte // the recorded forms of short texts
	seen          map[string]int    // the recorded names of the list that is being written
	policy        action.Policy
}

func newWriter(recordContent bool) *writer {
	return &writer{recordContent: recordContent, names: map[string]nameFacts{}, texts: map[string][]byte{}, seen: map[string]int{}}
}

// nameFacts are what follows from the name of an attribute.
type nameFacts struct {
	recorded                 string
	content, measure, secret bool
}

// The bounds of what is remembered.
const (
	maxRemembered = 10_000
	maxShort      = 64 // bytes of a text
)

func (w *writer) name(name string) nameFacts {
	known, ok := w.names[name]
	if !ok {
		known = nameFacts{action.RecordedID(name), namesContent(name), namesMeasure(name), mask.NamesSecret(name)}
		if len(w.names) < maxRemembered {
			w.names[name] = known
		}
	}
	return known
}

// attributes appends a list of attributes as an object. A name that comes again has "#2" behind it,
// so that nothing hides behind it.
func (w *writer) attributes(dst []byte, list []*commonpb.KeyValue) []byte {
	clear(w.seen)
	dst = append(dst, '{')
	for i, a := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		of := w.name(a.GetKey())
		dst = append(jcs.AppendString(dst, unique(w.seen, of.recorded)), ':')
		dst = w.value(dst, a.GetValue(), of.secret, isContent(of.content, of.measure, a.GetValue()))
	}
	return append(dst, '}')
}

// unique returns a name that is not among those seen, and adds it to them.
func unique(seen map[string]int, name string) string {
	n := seen[name] + 1
	seen[name] = n
	if n == 1 {
		return name
	}
	return unique(seen, name+"#"+strconv.Itoa(n))
}

// value appends the recorded form of a value.
func (w *writer) value(dst []byte, v *commonpb.AnyValue, secret, content bool) []byte {
	hashed := content && !w.recordContent
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		if secret || hashed || len(v.StringValue) > maxShort {
			return append(dst, w.policy.MemberText(v.StringValue, secret, hashed)...)
		}
		known, ok := w.texts[v.StringValue]
		if !ok {
			if known = w.policy.MemberText(v.StringValue, false, false); len(w.texts) < maxRemembered {
				w.texts[v.StringValue] = known
			}
		}
		return append(dst, known...)
	case *commonpb.AnyValue_BoolValue:
		return strconv.AppendBool(dst, v.BoolValue)
	}
	return append(dst, w.policy.Member(appendValue(nil, v), secret, hashed)...)
}

// text appends a member with a text, unless that is empty.
func (w *writer) text(dst []byte, name, text string, content bool) []byte {
	if text == "" {
		return dst
	}
	return append(member(dst, name), w.policy.MemberText(text, false, content && !w.recordContent)...)
}

// member appends a comma and the name of a member.
func member(dst []byte, name string) []byte {
	return append(append(append(dst, `,"`...), name...), `":`...)
}

// identifier appends a member with a name or ID, unless that is empty.
func identifier(dst []byte, name, text string) []byte {
	if text == "" {
		return dst
	}
	return jcs.AppendString(member(dst, name), action.RecordedID(text))
}

// appendValue appends a value as JSON: bytes as base64, and what is no number as a text.
func appendValue(dst []byte, v *commonpb.AnyValue) []byte {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return jcs.AppendString(dst, v.StringValue)
	case *commonpb.AnyValue_BoolValue:
		return strconv.AppendBool(dst, v.BoolValue)
	case *commonpb.AnyValue_IntValue:
		// package action makes a text of what no double holds
		return strconv.AppendInt(dst, v.IntValue, 10)
	case *commonpb.AnyValue_DoubleValue:
		return jsontext.AppendFloat(dst, v.DoubleValue, 64)
	case *commonpb.AnyValue_BytesValue:
		return jcs.AppendString(dst, base64.StdEncoding.EncodeToString(v.BytesValue))
	case *commonpb.AnyValue_ArrayValue:
		dst = append(dst, '[')
		for i, element := range v.ArrayValue.GetValues() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, element)
		}
		return append(dst, ']')
	case *commonpb.AnyValue_KvlistValue:
		seen := map[string]int{}
		dst = append(dst, '{')
		for i, a := range v.KvlistValue.GetValues() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(jcs.AppendString(dst, unique(seen, a.GetKey())), ':')
			dst = appendValue(dst, a.GetValue())
		}
		return append(dst, '}')
	}
	return append(dst, "null"...)
}

// valueDepth returns how deep arrays and lists nest in a value, at most one more than most.
func valueDepth(v *commonpb.AnyValue, most int) (depth int) {
	if most < 0 {
		return 1
	}
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_ArrayValue:
		for _, element := range v.ArrayValue.GetValues() {
			depth = max(depth, valueDepth(element, most-1))
		}
		return depth + 1
	case *commonpb.AnyValue_KvlistValue:
		for _, a := range v.KvlistValue.GetValues() {
			depth = max(depth, valueDepth(a.GetValue(), most-1))
		}
		return depth + 1
	}
	return 0
}

// moment appends a member with a time in nanoseconds since 1970, unless that is 0.
func moment(dst []byte, name string, nanoseconds uint64) []byte {
	if nanoseconds == 0 {
		return dst
	}
	at := time.Unix(int64(nanoseconds/1e9), int64(nanoseconds%1e9)).UTC()
	dst = append(member(dst, name), '"')
	return append(at.AppendFormat(dst, "2006-01-02T15:04:05.000000000Z"), '"')
}

// number appends a member with a number, unless that is 0.
func number(dst []byte, name string, n uint64) []byte {
	if n == 0 {
		return dst
	}
	return strconv.AppendUint(member(dst, name), n, 10)
}
