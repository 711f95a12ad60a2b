package web

import (
	"bytes"
	_ "embed"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	yaml "github.com/oasdiff/yaml3"
)

//go:embed openapi.yaml
var openAPIYAML []byte

var openAPIJSON = sync.OnceValue(func() []byte {
	doc, err := yamlToJSON(openAPIYAML)
	if err != nil {
		panic("web: openapi.yaml: " + err.Error()) // embedded and held by a test: no input can lead here
	}
	return doc
})

// OpenAPI returns the API reference, an OpenAPI 3.1 document, as JSON with its members in the order of openapi.yaml.
// It is converted at the first call. The caller must not change the result.
func OpenAPI() []byte { return openAPIJSON() }

// yamlToJSON writes the one document in src as JSON. The order of members is kept, which a detour over Go maps would
// lose, and aliases are written out.
func yamlToJSON(src []byte) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := writeNode(jsontext.NewEncoder(&out), &doc); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// writeNode refuses what JSON has no form for, and YAML 1.1's merge keys, which YAML 1.2 no longer has.
func writeNode(enc *jsontext.Encoder, n *yaml.Node) error {
	switch n.Kind {
	case yaml.DocumentNode:
		return writeNode(enc, n.Content[0])
	case yaml.AliasNode:
		return writeNode(enc, n.Alias)
	case yaml.SequenceNode:
		return writeAll(enc, jsontext.BeginArray, n.Content, jsontext.EndArray)
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			if key := n.Content[i]; key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
				return fmt.Errorf("line %d: name %q is not a string", key.Line, key.Value)
			}
		}
		return writeAll(enc, jsontext.BeginObject, n.Content, jsontext.EndObject)
	}
	switch tag := n.ShortTag(); tag {
	case "!!str":
		return enc.WriteToken(jsontext.String(n.Value))
	case "!!int", "!!float", "!!bool", "!!null":
		if err := enc.WriteValue(jsontext.Value(n.Value)); err != nil {
			return fmt.Errorf("line %d: %q is not spelled as in JSON: %w", n.Line, n.Value, err)
		}
		return nil
	default:
		return fmt.Errorf("line %d: %q is a %s, which JSON does not have; quote it", n.Line, n.Value, tag)
	}
}

func writeAll(enc *jsontext.Encoder, begin jsontext.Token, content []*yaml.Node, end jsontext.Token) error {
	if err := enc.WriteToken(begin); err != nil {
		return err
	}
	for _, n := range content {
		if err := writeNode(enc, n); err != nil {
			return err
		}
	}
	return enc.WriteToken(end)
}
