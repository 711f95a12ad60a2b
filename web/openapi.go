package web

import (
	"bytes"
	_ "embed"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	yaml "github.com/oasdiff/yaml3"
)

// The types and methods of the Python client, and the list of operations in docs/api.md, are made
// from the API reference.
//
//go:generate go run ./gen stub ../sdk/python/stub.pyi ../sdk/python/attestd/__init__.pyi
//go:generate go run ./gen methods ../sdk/python/attestd/_client.py ../sdk/python/attestd/_operations.py
//go:generate go run ./gen operations ../sdk/attestd/operations_test.go,../docs/api.md ../docs/api.md
//go:embed openapi.yaml
var reference []byte

// OpenAPI returns the API reference, an OpenAPI 3.1 document, as JSON with its members in the order
// of openapi.yaml. The caller must not change the result.
func OpenAPI() []byte { return openAPI() }

// openAPI converts the reference when it is first asked for. It is fixed at compile time, so an
// error is a broken build.
var openAPI = sync.OnceValue(func() []byte {
	converted, err := convert(reference)
	if err != nil {
		panic(fmt.Sprintf("openapi.yaml: %v", err))
	}
	return converted
})

// convert returns the one YAML document in src as JSON. The order of members is preserved, which a
// detour over Go maps would lose, and aliases are written out. Each value has a line of its own, so
// that changes can be merged, without indentation, which would be sent with every answer.
func convert(src []byte) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := writeNode(jsontext.NewEncoder(&out, jsontext.Multiline(true), jsontext.WithIndent("")), &doc); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// writeNode refuses what JSON has no form for, and YAML 1.1's merge keys, which YAML 1.2 no longer
// has.
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
