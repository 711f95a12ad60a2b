package web

import _ "embed"

// openapi.json is the served form of openapi.yaml. Both are in the repository, so that a build
// needs no generator. After a merge conflict in openapi.json, take either side and generate it
// again.
//
//go:generate go run ./gen openapi openapi.yaml openapi.json
//go:generate go run ./gen stub openapi.json,../sdk/python/stub.pyi ../sdk/python/attestd/__init__.pyi
//go:generate go run ./gen methods openapi.json,../sdk/python/parts/5_client.py ../sdk/python/parts/4a_operations.py
//go:generate go run ./gen join ../sdk/python/parts/*,checkers/python/[1-7]* ../sdk/python/attestd/__init__.py
//go:generate go run ./gen operations openapi.json,../sdk/attestd/operations_test.go,../docs/api.md ../docs/api.md
//go:embed openapi.json
var openAPI []byte

// OpenAPI returns the API reference, an OpenAPI 3.1 document, as JSON with its members in the order
// of openapi.yaml. The caller must not change the result.
func OpenAPI() []byte { return openAPI }
