package server

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// hosts are all places where code that serves requests reads a Host or a forwarding header, by file
// and expression, with what they do with it. Only httpapi/ownname.go derives the server's identity.
var hosts = map[string]string{
	"server/httpapi/ownname.go r.Host":                 "the rule",
	"server/httpapi/clientip.go \"X-Forwarded-For\"":   "whose address counts, from trusted proxies",
	"server/httpapi/clientip.go \"X-Forwarded-Proto\"": "see ownScheme",
	"server/api/ca.go \"Host, X-Forwarded-Proto\"":     "Vary",
	"server/api/issuer.go \"Host, X-Forwarded-Proto\"": "Vary",
	"server/httpapi/local.go r.Host":                   "a sign of a proxy, which refuses",
	"server/httpapi/local.go \"Forwarded\"":            "a sign of a proxy, which refuses",
	"server/httpapi/local.go \"X-Forwarded-\"":         "a sign of a proxy, which refuses",
	"server/tls.go r.Host":                             "whether the browser may use https alone for its own address",
	"server/redirect.go r.Host":                        "the same address on https",
	"server/redirect.go to.Host":                       "a URL",
	"server/handler.go c.Host":                         "looks for another method of the same path",
	"server/api/forward.go r.Host":                     "of the request to another service, which the proxy has sent on",
	"server/api/forward.go \"X-Forwarded-Host\"":       "the other service's, as the proxy says with its credential",
	"server/api/forward.go \"X-Forwarded-Method\"":     "of the request to the other service",
	"server/api/forward.go \"X-Forwarded-Proto\"":      "of the request to the other service",
	"server/api/forward.go \"X-Forwarded-Uri\"":        "of the request to the other service",
	"server/https/acme.go r.Host":                      "compared with --acme-domain",
	"server/https/acme.go asked.Host":                  "compared with --acme-domain",
	"server/httpapi/origin.go u.Host":                  "a URL",
	"server/export/https.go u.Host":                    "a URL",
	"server/export/https.go h.url.Host":                "a URL",
	"agent/localhttp/localhttp.go r.Host":              "compared with the loopback names and the public URL",
	"agent/localhttp/localhttp.go public.Host":         "a URL",
	"agent/localhttp/localhttp.go u.Host":              "a URL",
	"agent/mcpserver/resource.go at.Host":              "a URL",
	"agent/mcpproxy/discovery.go d.upstream.Host":      "a URL",
	"agent/mcpproxy/discovery.go issuer.Host":          "a URL",
	"agent/mcpproxy/remote.go u.Host":                  "a URL",
	"agent/mcpproxy/signin.go redirect.Host":           "a URL",
	"agent/mcpproxy/remote.go to.Host":                 "a URL",
	"agent/mcpproxy/remote.go \"Host\"":                "headers that are not handed on",
	"agent/mcpproxy/remote.go \"Forwarded\"":           "headers that are not handed on",
	"agent/mcpproxy/remote.go \"X-Forwarded-\"":        "headers that are not handed on",
}

// What a request claims about the name of the server is read in one place. A file that serves
// requests and reads Host or a forwarding header elsewhere must give here the reason why that is no
// identity.
func TestHostIsNoIdentity(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, folder := range []string{"server", "service", "agent", "cmd"} {
		err := filepath.WalkDir(filepath.Join("..", folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			return hostsIn(path, func(what string) {
				found[filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))+" "+what] = true
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for what := range found {
		if hosts[what] == "" {
			t.Errorf("%s: who we are is for ownBase to say; if this tells nobody, list it with what it does", what)
		}
	}
	for what := range hosts {
		if !found[what] {
			t.Errorf("%s: is there no more", what)
		}
	}
}

// hostsIn reports the members Host and the names of forwarding headers in a file that serves
// requests: one that names http.Request, or is of package server, server/httpapi or server/api.
func hostsIn(path string, report func(string)) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, 0)
	if err != nil {
		return err
	}
	serves := slices.Contains([]string{"server", "httpapi", "api"}, file.Name.Name)
	var all []string
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x := exprText(n.X)
			serves = serves || x == "http" && n.Sel.Name == "Request"
			if n.Sel.Name == "Host" {
				all = append(all, x+".Host")
			}
		case *ast.BasicLit:
			text := strings.Trim(n.Value, "\"`")
			name := !strings.ContainsAny(text, " :;=") || text == "Host, X-Forwarded-Proto"
			if n.Kind == token.STRING && name && (text == "Host" || strings.Contains(text, "Forwarded")) {
				all = append(all, n.Value)
			}
		}
		return true
	})
	if serves {
		for _, what := range slices.Compact(slices.Sorted(slices.Values(all))) {
			report(what)
		}
	}
	return nil
}

// exprText is the text of names joined by dots.
func exprText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return exprText(e.X) + "." + e.Sel.Name
	}
	return fmt.Sprintf("%T", e)
}
