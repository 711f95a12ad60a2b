package bundle_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"attestd/web/bundle"
)

func files(texts map[string]string) fstest.MapFS {
	all := fstest.MapFS{}
	for name, text := range texts {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

// Each form of import and export that the console's modules have becomes what it means in one
// script, and a module is there once, before those that import it.
func TestBundle(t *testing.T) {
	t.Parallel()
	b := bundle.Bundle{Files: files(map[string]string{
		"a.js":     "import { one, two as second } from './b.js';\nimport * as c from \"./lib/c.js\";\nconst later = () => import('./lib/c.js');\nexport { later as soon };\n",
		"b.js":     "/**\n * @example\nimport * as x from 'x';\n */\nimport {\n  three,\n} from './lib/c.js';\nexport const one = 1;\nexport async function two() {}\n",
		"lib/c.js": "export class three {}\nvar a = 1;export{a as four, a as five};\n",
	})}
	if _, err := b.Add("a.js"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(b.Names(), " "); got != "lib/c.js b.js a.js" {
		t.Errorf("the order is %s", got)
	}
	holds(t, b.Script(),
		"const { one, two: second } = module1;", "const c = module0;", "const later = () => Promise.resolve(module0);", "return { soon: later };",
		"import * as x from 'x';", "const {\n  three,\n} = module0;", "\nasync function two() {}", "return { one, two };", "var a = 1;\nreturn { four: a, five: a, three };",
	)
}

// Comments with types are for who edits a module: who loads it is spared them, not the licences.
func TestModuleWithoutTypes(t *testing.T) {
	t.Parallel()
	b := bundle.Bundle{Files: files(map[string]string{
		"a.js": "/*! licence */\n/**\n * @param {string} a\n */\nexport const one = (a) => a;\n  /** @type {number} */\nlet n = /** @type {any} */ (one('/** x */'));\n/** @type {any} */ (one)();\n/** said */\n// said\n",
	})}
	if _, err := b.Add("a.js"); err != nil {
		t.Fatal(err)
	}
	holds(t, b.Module(), "/*! licence */\nconst one = (a) => a;\nlet n = /** @type {any} */ (one('/** x */'));\n/** @type {any} */ (one)();\n// said\n")
}

// What is loaded later is a module of its own: it takes from the first one what is there, and so
// shares its state, brings the rest, and exports what its importer asks for.
func TestRateLimitedRecordsAreSentLater(t *testing.T) {
	t.Parallel()
	all := files(map[string]string{
		"app.js":        "import { state } from './core/s.js';\nconst later = () => import('./pages/p.js');\n",
		"core/s.js":     "export const state = {};\n",
		"pages/p.js":    "import { state } from '../core/s.js';\nimport { own } from './own.js';\nexport const Page = () => own(state);\n",
		"pages/own.js":  "export function own() {}\n",
		"pages/none.js": "export const none = 1;\n",
	})
	first := bundle.Bundle{Files: all, Later: func(name string) string { return "/" + name }}
	if _, err := first.Add("app.js"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(first.Dynamic(), " "); got != "pages/p.js" {
		t.Errorf("later come %s", got)
	}
	holds(t, first.Module(), "const later = () => import('/pages/p.js');", "export { module0, module1 };\n")
	later := bundle.Bundle{Files: all, Shared: &first, SharedURL: "/console.js"}
	if _, err := later.Add("pages/p.js"); err != nil {
		t.Fatal(err)
	}
	holds(t, later.Module(), "import { module0 } from '/console.js';\n", "const { state } = module0;", "const { own } = own0;", "export { own0, own1 };\n", "export const { Page } = own1;\n")
	if strings.Contains(later.Module(), "core/s.js") {
		t.Error("what is shared stands there a second time")
	}
}

func holds(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}

// What the bundle has no form for is refused, and not left to a browser.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"a default export":       "export default 1;\n",
		"an export that changes": "export let a = 1;\n",
		"all of a module":        "export * from './b.js';\n",
		"an address":             "import { a } from 'https://x/a.js';\n",
		"a computed import":      "const m = import(name);\n",
		"an import in a line":    "const m = 1;import(name);\n",
		"the module's address":   "const m = import.meta.url;\n",
		"the end of a script":    "const s = '</script>';\n",
		"a comment of HTML":      "const s = '<!--';\n",
		"itself":                 "import { a } from './a.js';\n",
		"what is not there":      "import { a } from './c.js';\n",
		"what is not exported":   "import { b, c } from './b.js';\n",
	} {
		b := bundle.Bundle{Files: files(map[string]string{"a.js": src, "b.js": "export const b = 1;\nconst c = 2;\n"})}
		if _, err := b.Add("a.js"); err == nil {
			t.Errorf("%s is taken:\n%s", name, b.Script())
		}
	}
}
