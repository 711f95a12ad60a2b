package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"attestd/web"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// document is web/openapi.yaml with a lookup from a request to its operation.
var document = sync.OnceValues(func() (routers.Router, error) {
	doc, err := openapi3.NewLoader().LoadFromFile("../web/openapi.yaml")
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background(), openapi3.DisableExamplesValidation()); err != nil {
		return nil, err
	}
	// The first path comes from tlog-witness.
	for _, plain := range []string{"text/x.tlog.size", "text/event-stream", "text/csv"} {
		openapi3filter.RegisterBodyDecoder(plain, openapi3filter.PlainBodyDecoder)
	}
	return gorillamux.NewRouter(doc)
})

// obeysDocument compares an answer with the document. It cannot check streams and JSON lines; a
// path or method that is not in the document must be answered with a JSON error.
func obeysDocument(req *http.Request, status int, header http.Header, raw []byte) error {
	router, err := document()
	if err != nil {
		return err
	}
	// The document cannot describe a parameter of several segments.
	if log, tile, ok := strings.Cut(req.URL.Path, "/tile/"); ok && strings.HasPrefix(log, "/v1/log/") {
		req = req.Clone(req.Context())
		req.URL.Path = log + "/tile/" + strings.ReplaceAll(tile, "/", "-")
	}
	if status == http.StatusSwitchingProtocols || req.Method == http.MethodHead || header.Get("Content-Type") == "application/x-ndjson" || header.Get("Content-Type") == "application/octet-stream" {
		return nil
	}
	route, _, err := router.FindRoute(req)
	if status == http.StatusForbidden && req.Header.Get("Origin") != "" && bytes.HasPrefix(raw, []byte(`{"error":"Origin not allowed`)) {
		return outsideDocument(status, raw)
	}
	if status == http.StatusBadRequest && bytes.HasPrefix(raw, []byte(`{"error":"Invalid header: `)) && bytes.HasSuffix(bytes.TrimSpace(raw), []byte(` is given more than once"}`)) {
		return nil // any operation may answer this
	}
	if errors.Is(err, routers.ErrPathNotFound) || errors.Is(err, routers.ErrMethodNotAllowed) || status == http.StatusMethodNotAllowed {
		if req.URL.Path == "/v1/passports//revoke" { // our router would not see the empty ID
			return nil
		}
		return outsideDocument(status, raw)
	}
	if err != nil {
		return err
	}
	response, at := responseOf(route, status)
	if response == nil {
		return fmt.Errorf("status %d is not in the document", status)
	}
	if err := headersObey(response, at, header); err != nil {
		return err
	}
	return bodyObeys(response, at, status, header.Get("Content-Type"), raw)
}

// responseOf returns what the document says of a status, and where, or nil.
func responseOf(route *routers.Route, status int) (response *openapi3.Response, at string) {
	responses := route.Operation.Responses
	name := strconv.Itoa(status)
	ref := responses.Value(name)
	if ref == nil {
		name, ref = "default", responses.Default()
	}
	switch {
	case ref == nil:
		return nil, ""
	case ref.Ref != "":
		return ref.Value, ref.Ref
	}
	return ref.Value, "#/paths/" + escaped(route.Path) + "/" + strings.ToLower(route.Method) + "/responses/" + name
}

// headersObey compares the headers that the document names. openapi3filter would compile the schema
// of each for each answer.
func headersObey(response *openapi3.Response, at string, header http.Header) error {
	for name, ref := range response.Headers {
		if ref.Value.Content != nil || ref.Value.Schema == nil {
			return fmt.Errorf("header %s has no schema in the document", name)
		}
		if len(header.Values(name)) == 0 {
			if ref.Value.Required {
				return fmt.Errorf("header %s is missing", name)
			}
			continue
		}
		pointer := at + "/headers/" + escaped(name)
		if ref.Ref != "" {
			pointer = ref.Ref
		}
		schema, err := schemaAt(pointer + "/schema")
		if err != nil {
			return err
		}
		var value any = header.Get(name)
		switch kind := ref.Value.Schema.Value.Type; {
		case kind.Is("integer"):
			value = json.Number(header.Get(name))
		case !kind.Is("string"):
			return fmt.Errorf("header %s has the type %v in the document, which this test cannot read", name, kind)
		}
		if err := schema.Validate(value); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	return nil
}

// compiled caches the compiled schemas of answers by their place in the document, because compiling
// one takes far longer than using it.
var compiled struct {
	sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema
}

func bodyObeys(response *openapi3.Response, at string, status int, contentType string, raw []byte) error {
	kind, _, _ := strings.Cut(contentType, ";")
	content := response.Content
	if len(content) == 0 {
		if len(raw) > 0 && !strings.HasPrefix(kind, "text/") {
			return fmt.Errorf("status %d has no body in the document, and here %q", status, raw)
		}
		return nil
	}
	media := content[kind]
	if media == nil {
		return fmt.Errorf("status %d has no content of the type %q in the document", status, contentType)
	}
	if media.Schema == nil || !strings.HasSuffix(kind, "json") {
		return nil
	}
	schema, err := schemaAt(at + "/content/" + escaped(kind) + "/schema")
	if err != nil {
		return err
	}
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	return schema.Validate(body)
}

// escaped returns a member's name as a JSON Pointer has it.
func escaped(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func schemaAt(pointer string) (*jsonschema.Schema, error) {
	compiled.Lock()
	defer compiled.Unlock()
	if compiled.compiler == nil {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(web.OpenAPI()))
		if err != nil {
			return nil, err
		}
		c := jsonschema.NewCompiler()
		c.DefaultDraft(jsonschema.Draft2020)
		c.AssertFormat()
		if err := c.AddResource("attestd:openapi.json", doc); err != nil {
			return nil, err
		}
		compiled.compiler, compiled.schemas = c, map[string]*jsonschema.Schema{}
	}
	if s := compiled.schemas[pointer]; s != nil {
		return s, nil
	}
	s, err := compiled.compiler.Compile("attestd:openapi.json" + pointer)
	if err == nil {
		compiled.schemas[pointer] = s
	}
	return s, err
}

func outsideDocument(status int, raw []byte) error {
	var body map[string]any
	err := json.Unmarshal(raw, &body)
	if text, _ := body["error"].(string); err != nil || text == "" || len(body) != 1 {
		return fmt.Errorf("want a JSON object with error alone, got %s", raw)
	}
	if status != http.StatusNotFound && status != http.StatusMethodNotAllowed && status != http.StatusTooManyRequests && status != http.StatusForbidden {
		return fmt.Errorf("status %d for something that is not in the document", status)
	}
	return nil
}

// isSecret reports by the name of a JSON member whether its value is a secret.
func isSecret(name string) bool {
	switch strings.ToLower(name) {
	case "apikey", "key", "clientsecret", "client_secret", "access_token", "token", "secret", "svid", "passport",
		"subject_token", "actor_token", "delegation":
		return true
	}
	return false
}
