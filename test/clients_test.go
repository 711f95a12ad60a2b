package test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/internal/harness"
	"attestd/internal/must"
	"attestd/internal/testenv"
	api "attestd/sdk/attestd"
	"attestd/store/storetest"
	"attestd/web"
)

const typescript = "../sdk/typescript"

// builtClient demands that the TypeScript client is built from the current sources.
func builtClient(t *testing.T) {
	t.Helper()
	built, err := os.Stat(typescript + "/dist/index.js")
	if err != nil {
		testenv.Missing(t, "the TypeScript client is not built: npm ci --prefix sdk/typescript && npm run build --prefix sdk/typescript")
	}
	for _, source := range []string{typescript + "/src", "../web/console/lib", "../web/openapi.yaml"} {
		must.OK(t, filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			// a checkout writes all files within that
			if err == nil && info.ModTime().After(built.ModTime().Add(time.Minute)) {
				testenv.Missing(t, path+" is newer than the TypeScript client: npm run build --prefix sdk/typescript")
			}
			return err
		}))
	}
}

// othersRun is for tests in which the processes of others run.
func othersRun(t *testing.T) {
	t.Helper()
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
}

// clientScript is a script of testdata/clients in the language of its name's ending, with the
// client at hand.
func clientScript(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	path := filepath.Join("testdata", "clients", name)
	if filepath.Ext(name) == ".mjs" {
		builtClient(t)
		return exec.Command(testenv.Path(t, "node"), append([]string{path}, args...)...)
	}
	cmd := exec.Command(pythonWithCryptography(t), append([]string{"-W", "default::ResourceWarning", path}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH=../sdk/python", "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

// printed runs a script to its end and reads the JSON that it prints.
func printed(t *testing.T, cmd *exec.Cmd, dest any) {
	t.Helper()
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must.OK(t, err)
	must.OK(t, json.Unmarshal(out, dest))
}

// operation is what a client's table and the API reference say of one.
type operation struct {
	Call                   string
	Status                 int
	Query, Header, Members []string
}

// documented returns the operations of the API reference.
func documented(t *testing.T) map[string]operation {
	t.Helper()
	type parameter struct{ Ref, In, Name string }
	type schema struct {
		Ref        string `json:"$ref"`
		Properties map[string]json.RawMessage
	}
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string
			Browser     bool `json:"x-browser"` // what only the console does
			Parameters  []json.RawMessage
			Responses   map[string]json.RawMessage
			RequestBody *struct {
				Content map[string]struct{ Schema schema }
			}
		}
		Components struct {
			Parameters map[string]parameter
			Schemas    map[string]schema
		}
	}
	must.OK(t, json.Unmarshal(web.OpenAPI(), &document))
	all := map[string]operation{}
	for path, methods := range document.Paths {
		for method, answer := range methods {
			if answer.Browser {
				continue
			}
			o := operation{Call: strings.ToUpper(method) + " " + path, Status: 200}
			if _, created := answer.Responses["201"]; created {
				o.Status = 201
			}
			for _, raw := range answer.Parameters {
				var p parameter
				must.OK(t, json.Unmarshal(bytes.ReplaceAll(raw, []byte(`"$ref"`), []byte(`"ref"`)), &p))
				if p.Ref != "" {
					p = document.Components.Parameters[filepath.Base(p.Ref)]
				}
				switch {
				case p.In == "query":
					o.Query = append(o.Query, p.Name)
				case p.In == "header" && answer.OperationID != "stream":
					// its headers are the handshake's
					o.Header = append(o.Header, p.Name)
				}
			}
			if answer.RequestBody != nil {
				if text, is := answer.RequestBody.Content["text/plain"]; is && text.Schema.Ref == "" {
					o.Members = []string{"text"}
				} else {
					s := answer.RequestBody.Content["application/json"].Schema
					if s.Ref != "" {
						s = document.Components.Schemas[filepath.Base(s.Ref)]
					}
					if o.Members = slices.Collect(maps.Keys(s.Properties)); len(o.Members) == 0 {
						o.Members = []string{"*"}
					}
				}
			}
			all[answer.OperationID] = o.sorted()
		}
	}
	return all
}

func (o operation) sorted() operation {
	slices.Sort(o.Query)
	slices.Sort(o.Header)
	slices.Sort(o.Members)
	return o
}

// Both clients have every operation of the API reference and no other, each with its route, its
// parameters and its success.
func TestClientsHaveEveryOperation(t *testing.T) {
	testenv.Concurrent(t)
	othersRun(t)
	want := documented(t)
	for _, script := range []string{"operations.mjs", "operations.py"} {
		t.Run(script, func(t *testing.T) {
			var has map[string]operation
			printed(t, clientScript(t, script), &has)
			for _, name := range slices.Sorted(maps.Keys(want)) {
				answer, _ := json.Marshal(want[name])
				if got, err := json.Marshal(has[name].sorted()); err != nil || string(got) != string(answer) {
					t.Errorf("%s is %s in the reference, and %s in the client", name, answer, got)
				}
			}
			for name := range has {
				if _, there := want[name]; !there {
					t.Errorf("%s is no operation of the reference", name)
				}
			}
		})
	}
}

// docs/api.md has a row for each operation of the API reference and no other, with names
// under which each client has it.
func TestOperationsPageIsComplete(t *testing.T) {
	othersRun(t)
	page, err := os.ReadFile("../docs/api.md")
	must.OK(t, err)
	rows := map[string]bool{}
	names := map[string][]string{}
	row := regexp.MustCompile("(?m)^\\| `(.+)` \\| `(\\w+)` \\| `(\\w+)` \\| `(\\w+)` \\| (\\S.*) \\|$")
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		rows[m[1]] = true
		for i, language := range []string{"go", "typescript", "python"} {
			names[language] = append(names[language], m[2+i])
		}
	}
	want := documented(t)
	for name, o := range want {
		if !rows[o.Call] {
			t.Errorf("there is no row of %s, %s", name, o.Call)
		}
	}
	if len(rows) != len(want) || len(names["go"]) != len(want) {
		t.Errorf("%d rows of %d calls, and the reference has %d", len(names["go"]), len(rows), len(want))
	}
	methods := reflect.TypeFor[*api.Client]()
	for _, name := range names["go"] {
		if _, is := methods.MethodByName(name); !is {
			t.Errorf("the Go client has no %s", name)
		}
	}
	for language, script := range map[string]string{"typescript": "names.mjs", "python": "names.py"} {
		var lacks []string
		printed(t, clientScript(t, script, names[language]...), &lacks)
		if len(lacks) > 0 {
			t.Errorf("the client for %s has no %v", language, lacks)
		}
	}
}

// The Python client's types are those of the client: the same names with the same arguments.
func TestPythonTypesAreThoseOfTheClient(t *testing.T) {
	othersRun(t)
	var differ []string
	printed(t, clientScript(t, "stub.py"), &differ)
	for _, difference := range differ {
		t.Error(difference)
	}
}

// Calls of the built TypeScript client are typed: the compiler knows their arguments and their
// answers by the reference.
func TestTypeScriptCallsAreTyped(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	othersRun(t)
	builtClient(t)
	compiler := "node_modules/typescript/bin/tsc"
	if _, err := os.Stat(filepath.Join(typescript, compiler)); err != nil {
		testenv.Missing(t, "there is no typescript: npm ci --prefix sdk/typescript")
	}
	cmd := exec.CommandContext(t.Context(), testenv.Path(t, "node"), compiler, "--strict", "--noEmit", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom,dom.iterable", "--types", "node", "typed.mts", "typed.cts")
	cmd.Dir = typescript
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Features outside the conformance file work on every installed Python: asyncio and concurrent
// calls, the stream, control logs, and the refusal of values that JSON cannot represent.
func TestClientsInUse(t *testing.T) {
	testenv.Concurrent(t)
	othersRun(t)
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	use := func(name, script, program string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := s.register(t, strings.ReplaceAll(name, ".", "-"))
			c.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"bot"}`, nil)
			for range 2 { // so that the control log has more than its first records
				c.call(t, 201, "POST", "/v1/keys", `{}`, nil)
			}
			cmd := clientScript(t, script, s.URL, c.key)
			if program != "" {
				cmd.Path, cmd.Err = exec.LookPath(program)
			}
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
	use("use.mjs", "use.mjs", "")
	use("use.py", "use.py", "")
	pythons, err := harness.Pythons(t.Context())
	must.OK(t, err)
	for _, p := range pythons {
		use(p.Name, "use.py", p.Program)
	}
}
