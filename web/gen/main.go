// Command gen makes the files that are served from those that people write:
//
//	gen openapi openapi.yaml openapi.json        the API reference, from YAML to JSON
//	gen page verifier/page.html verifier.html    a page with its modules and styles, in one file
//	gen stub openapi.json,stub.pyi __init__.pyi  the types of the Python client
//	gen methods openapi.json,5_client.py 4a_operations.py
//	                                             the methods of the Python client, with signatures and docstrings
//	gen operations openapi.json,operations_test.go,api.md api.md
//	                                             the table of all operations in a page, with their names in the clients
//	gen join 'checkers/python/*' check.py        the files that a pattern matches in the order of their names, in one
//	                                             file
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"

	"github.com/go-json-experiment/json/jsontext"
	yaml "github.com/oasdiff/yaml3"
)

func main() {
	log.SetFlags(0)
	makers := map[string]func(from string) ([]byte, error){"openapi": openAPI, "page": page, "join": join, "stub": stub, "methods": pythonMethods, "operations": operationsPage}
	if len(os.Args) != 4 || makers[os.Args[1]] == nil {
		log.Fatal("usage: gen openapi|page|join|stub|methods|operations FROM TO")
	}
	made, err := makers[os.Args[1]](os.Args[2])
	if err != nil {
		log.Fatalf("%s: %v", os.Args[2], err)
	}
	if err := os.WriteFile(os.Args[3], made, 0o644); err != nil {
		log.Fatal(err)
	}
}

func openAPI(name string) ([]byte, error) {
	src, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return convert(src)
}

// convert returns the one YAML document in src as JSON. The order of members is kept, which a
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
