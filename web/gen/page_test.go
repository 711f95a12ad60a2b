package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// written are files in a folder of their own, from which the test works.
func written(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Each form of import and export that the console's modules have becomes what it means in one script, and a module stands there once, before those that
// import it.
func TestBundle(t *testing.T) {
	written(t, map[string]string{
		"a.js":     "import { one, two as second } from './b.js';\nimport * as c from \"./lib/c.js\";\nconst later = () => import('./lib/c.js');\nexport { later as soon };\n",
		"b.js":     "/**\n * @example\nimport * as x from 'x';\n */\nimport {\n  three,\n} from './lib/c.js';\nexport const one = 1;\nexport async function two() {}\n",
		"lib/c.js": "export class three {}\nvar a = 1;export{a as four, a as five};\n",
	})
	var b bundle
	if _, err := b.add("a.js"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(b.names, " "); got != "lib/c.js b.js a.js" {
		t.Errorf("the order is %s", got)
	}
	for _, want := range []string{
		"const { one, two: second } = module1;", "const c = module0;", "const later = () => Promise.resolve(module0);", "return { soon: later };",
		"import * as x from 'x';", "const {\n  three,\n} = module0;", "\nasync function two() {}", "return { one, two };", "var a = 1;\nreturn { four: a, five: a, three };",
	} {
		if !strings.Contains(b.out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, b.out.String())
		}
	}
}

// What the bundle has no form for is refused, and not left to a browser.
func TestBundleRefuses(t *testing.T) {
	for name, src := range map[string]string{
		"a default export":       "export default 1;\n",
		"an export that changes": "export let a = 1;\n",
		"all of a module":        "export * from './b.js';\n",
		"an address":             "import { a } from 'https://x/a.js';\n",
		"a computed import":      "const m = import(name);\n",
		"the end of a script":    "const s = '</script>';\n",
		"itself":                 "import { a } from './a.js';\n",
		"what is not there":      "import { a } from './c.js';\n",
	} {
		written(t, map[string]string{"a.js": src})
		var b bundle
		if _, err := b.add("a.js"); err == nil {
			t.Errorf("%s is taken:\n%s", name, b.out.String())
		}
	}
}

// The page's policy allows the one script and the one style that stand in it, by their hashes, and nothing from anywhere.
func TestPage(t *testing.T) {
	written(t, map[string]string{
		"p/page.html": "<head>\n<meta content=\"{{policy}}\">\n<link rel=\"stylesheet\" href=\"../a.css\">\n<link rel=\"stylesheet\" href=\"b.css\">\n</head>\n" +
			"<script type=\"module\" src=\"../c/vendor/x.js\"></script>\n<!-- {{licences}}-->\n",
		"a.css": "a {}\n", "p/b.css": "b {}\n", "c/vendor/x.js": "export const x = 1;\n", "c/vendor/LICENSE-x": "Take it.\n",
	})
	made, err := page("p/page.html")
	if err != nil {
		t.Fatal(err)
	}
	text := string(made)
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(text)
	script := regexp.MustCompile(`(?s)<script>(.*)</script>`).FindStringSubmatch(text)
	if style == nil || style[1] != "a {}\nb {}\n" || script == nil || strings.Contains(text, "href=") || !strings.Contains(text, "<!-- x:\n\nTake it.\n-->") {
		t.Fatal(text)
	}
	if want := "default-src 'none'; script-src " + hashOf(script[1]) + "; style-src " + hashOf(style[1]) + "; base-uri 'none'; form-action 'none'; "; !strings.Contains(text, want) {
		t.Errorf("%s\nlacks %s", text, want)
	}
}
