package web

import _ "embed"

// openapi.json is openapi.yaml in the form that is served. Both are in the repository, so that a
// build needs no generator. When the two no longer agree, or a merge finds a conflict in
// openapi.json, take either side of it and generate it again.
//
//go:generate go run ./gen openapi openapi.yaml openapi.json
//go:generate go run ./gen stub openapi.json,../sdk/python/stub.pyi ../sdk/python/attestd/__init__.pyi
//go:embed openapi.json
var openAPI []byte

// OpenAPI returns the API reference, an OpenAPI 3.1 document, as JSON with its members in the order
// of openapi.yaml. The caller must not change the result.
func OpenAPI() []byte { return openAPI }
