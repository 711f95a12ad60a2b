package telemetry

import (
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
)

// contentWords are the words in names of attributes whose text may be content.
var contentWords = wordSet(`answer answers args argument arguments body chunk chunks cmd command commands completion completions
	content contents conversation document documents embedding embeddings error errors input inputs instruction instructions json
	message messages output outputs parameter parameters params prompt prompts query question reasoning request response responses
	result results schema sql stacktrace statement summary text thinking thought thoughts transcript tools value values vector`)

// metadata are the names of attributes that are no content although a word in them is.
var metadata = wordSet(`error.type error_type error.code conversation.id gen_ai.conversation.id gen_ai.output.type gen_ai.prompt.name gen_ai.request.model
	gen_ai.request.choice.count gen_ai.request.encoding_formats gen_ai.request.service_tier gen_ai.response.finish_reasons gen_ai.response.id
	gen_ai.response.model gen_ai.response.service_tier gen_ai.openai.request.service_tier gen_ai.openai.response.service_tier
	gen_ai.openai.response.system_fingerprint openai.request.service_tier openai.response.service_tier openai.response.system_fingerprint
	http.request.method input.mime_type output.mime_type llm.request.type message.id message.uuid prompt.id prompt_id query_source request_id request.id
	response.id response.model response_id`)

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(text) {
		set[word] = true
	}
	return set
}

// maxMetadata is the size in bytes of the longest text that is not taken for content.
const maxMetadata = 256

// isContent reports whether the value of an attribute may be content: by a word in the attribute's
// name, or because it is a text of more than 256 bytes or a list of more than texts and numbers.
// Numbers and truth values never are. named says what the name says, and measure whether it is that
// of a number, which some agents send as text.
func isContent(named, measure bool, v *commonpb.AnyValue) bool {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return named && !(measure && isNumber(v.StringValue)) || len(v.StringValue) > maxMetadata
	case *commonpb.AnyValue_BytesValue, *commonpb.AnyValue_KvlistValue:
		return true
	case *commonpb.AnyValue_ArrayValue:
		size := 0
		for _, element := range v.ArrayValue.GetValues() {
			switch element := element.GetValue().(type) {
			case *commonpb.AnyValue_StringValue:
				size += len(element.StringValue)
			case *commonpb.AnyValue_BytesValue, *commonpb.AnyValue_KvlistValue, *commonpb.AnyValue_ArrayValue:
				return true
			}
		}
		return named || size > maxMetadata
	}
	return false
}

// namesContent reports whether a word in the name of an attribute says that its value is content.
func namesContent(name string) bool {
	if metadata[name] {
		return false
	}
	for len(name) > 0 {
		n := wordLength(name)
		if contentWords[strings.ToLower(name[:n])] {
			return true
		}
		name = strings.TrimLeft(name[n:], separators)
	}
	return false
}

// namesMeasure reports whether an attribute's name is that of a number.
func namesMeasure(name string) bool {
	for _, unit := range [...]string{"_tokens", "_ms", "_usd", "_count", "_bytes", "_length"} {
		if strings.HasSuffix(name, unit) {
			return true
		}
	}
	return false
}

func isNumber(text string) bool {
	return len(text) <= 20 && strings.Trim(text, "0123456789.") == ""
}

const separators = "._-:/ "

// wordLength returns the length of the first word of a name, in snake_case, dotted or camelCase.
func wordLength(name string) int {
	for i := 1; i < len(name); i++ {
		if strings.IndexByte(separators, name[i]) >= 0 || isUpper(name[i]) && !isUpper(name[i-1]) {
			return i
		}
	}
	return len(name)
}

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
