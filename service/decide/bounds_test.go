package decide_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"attestd/service/decide"
)

// starter are policies that read everything that is derived.
const starter = `permit (principal, action, resource);
forbid (principal, action, resource) when { context.dropped.contains("/command") || !context.unclear.isEmpty() || context.keyFile };
forbid (principal, action, resource) when { context has outside && context.outside && context.words.contains("rm -r") };
forbid (principal, action, resource) when { context.arguments has command && context.arguments.command like "*rm*-rf*/*" };
forbid (principal, action, resource) when { context.arguments has a && context.arguments.a == context.arguments } unless { context.approved };`

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Arguments that are chosen to be expensive are not.
func TestHostileArguments(t *testing.T) { // not in parallel: it counts what the process allocates
	s := compile(t, starter)
	command := func(text string) string { return fmt.Sprintf(`{"command":%q}`, text) }
	fill := func(unit string) string { return strings.Repeat(unit, 60_000/len(unit)) }
	list := func(n int, element func(i int) string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = element(i)
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	arguments := map[string]string{
		"deep":     strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000),
		"brackets": fill("["),
		// Cedar's sets find a place for elements of one hash one after another
		"colliding": `{"a":[` + strings.TrimSuffix(strings.Repeat(list(200, func(i int) string {
			if i%2 == 0 {
				return fmt.Sprint(i / 2)
			}
			return fmt.Sprintf("0.%04d", i/2+1)
		})+",", 50), ",") + "]}",
		"exponent": `{"a":1e` + fill("9") + `}`, "digits": `{"a":0.` + fill("0") + `1}`,
		"many": `{"a":` + list(10_000, func(i int) string { return fmt.Sprint(i) }) + "}",
		"reserved": `{"` + strings.Repeat("x", 5_000) + `":{` + strings.TrimSuffix(strings.Repeat(`"__a":1,`, 1), ",") + `,"b":` +
			list(490, func(int) string { return "null" }) + "}}",
		"text": `{"content":"` + fill("https://a.example *** Update File: /") + `"}`,
	}
	for _, unit := range []string{"(", "((", "$(", "{ ", "if ", "! ", "`", `"$(`, "<(", "$((", "${a:-", "while ", "case x in x) ", "[[ ( ", "[[ ! ",
		"a|", "a&&", "a;", "f(){ ", "f() ", "time ", "coproc ", "a[", "@(", "((-", "$[", "<<a\n", `\`, "select x do ", "{a,b}", "sudo ", "a=$a$a;",
		"sh -c 'a' ", "echo a|sh|", "eval ", "find -exec ", "x=a;x=$x$x;rm $x;", "rm a{1,2,3,4}{1,2,3,4}{1,2,3,4} ;", "for i in a b; do ", "ls|sort|", "$(ls ", "$(ls $(echo ", "ls|while read a;do ", "alias a=b;a ",
		"ls|xargs -I{} xargs ", "curl -o a a>a|tee a;sh a;", "curl a.example/", "~/.ssh/*?[",
		"'sh -c \"", "ssh x ", "echo x | sh -c 'echo x | sh -c '"} {
		arguments[unit] = command(fill(unit))
	}
	for name, text := range arguments {
		req := transfer(text)
		const most = 16 << 20
		started := time.Now()
		if n := allocated(func() { s.Decide(req) }); n > most {
			t.Errorf("%q: %d bytes", name, n)
		}
		t.Logf("%q: %v", name, time.Since(started))
	}
}

// Policies and arguments that are too expensive together are refused.
func TestExpensivePolicies(t *testing.T) {
	t.Parallel()
	text := fmt.Sprintf(`permit (principal, action, resource) unless { context.arguments has a && context.arguments.a like "*%sb" };`, strings.Repeat("a", 10_000))
	s := compile(t, text)
	if d := s.Decide(transfer(`{"a":"` + strings.Repeat("a", 60_000) + `"}`)); d.Verdict != "deny" || d.Code != "DECISION_ERROR" {
		t.Errorf("%+v", d)
	}
	if d := s.Decide(transfer(`{"a":"a"}`)); d.Verdict != "allow" {
		t.Errorf("%+v", d)
	}
	many := transfer("{}")
	many.Groups = make([]string, 10_000)
	if d := s.Decide(many); d.Code != "DECISION_ERROR" {
		t.Errorf("%+v", d)
	}
}

// FuzzCheck holds that a text is refused at a place in it, or can be compiled and decided with.
func FuzzCheck(f *testing.F) {
	f.Add(starter)
	f.Add(`@quorum("2") permit (principal is Agent in Group::"a", action in [Action::"call"], resource == Tool::"b") when { if true then [1].contains(-1) else {a: 1}.a > 2 };`)
	f.Add("\x00")
	f.Add("/*/ \"*/ \"\\\"(\" // \n[")
	f.Fuzz(func(t *testing.T, text string) {
		p := decide.Policy{ID: "p", Text: text}
		err := decide.Check(p, true)
		var refused *decide.PolicyError
		if errors.As(err, &refused) {
			if lines := strings.Count(text, "\n") + 1; refused.Message == "" || refused.Line > lines || len(text) <= decide.MaxText && refused.Line < 1 {
				t.Fatalf("%+v", refused)
			}
			return
		}
		s, err := decide.Compile([]decide.Policy{p})
		if err != nil {
			if !errors.Is(err, decide.ErrLimit) {
				t.Fatal(err)
			}
			return
		}
		if d := s.Decide(transfer(`{"a":[1,1.5,"x"],"command":"ls"}`)); (d.Verdict == "ask") != (d.Ask != nil) || (d.Verdict == "deny") != (d.Code != "") {
			t.Fatalf("%+v", d)
		}
	})
}

// FuzzCommand holds that what a command runs is found however it is wrapped.
func FuzzCommand(f *testing.F) {
	for _, text := range []string{"ls", "a | b", "$(x)", "for i in a; do b; done", "x=1; echo $x", "cat <<'E'\nE", "{a,b}", `"$(`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := deriveCommand(t, text)
		if len(d.Dropped) > 0 || strings.Contains(text, "\x00") {
			return
		}
		wrapped := deriveCommand(t, "sudo env A=b sh -c '"+strings.ReplaceAll(text, "'", `'\''`)+"'")
		if len(wrapped.Dropped) > 0 {
			return
		}
		for _, program := range d.Programs {
			if !strings.Contains(strings.Join(wrapped.Programs, "\n"), program) {
				t.Fatalf("%q runs %q, and wrapped %q", text, d.Programs, wrapped.Programs)
			}
		}
	})
}

// FuzzDecide holds that a decision depends on nothing but its request, and that no request is
// expensive or makes a decision panic. That would deny it with DECISION_ERROR: no policy of the
// set errs.
func FuzzDecide(f *testing.F) {
	f.Add(`{"command":"rm -rf /","a":[1,1.0,1e2]}`, "/srv/shop")
	f.Add(`{"a":{"__b":1},"a":2}`, "")
	f.Add(`{"url":"https://a@b","file_path":"~"}`, `C:\x`)
	s := compile(f, starter)
	f.Fuzz(func(t *testing.T, arguments, folder string) {
		req := transfer(arguments)
		req.Folder = folder
		var first, again decide.Decision
		const most, longest = 16 << 20, 50 * time.Millisecond
		began := time.Now()
		if n := allocated(func() { first = s.Decide(req) }); n > most {
			t.Fatalf("%d bytes", n)
		}
		between := time.Now()
		again = s.Decide(req)
		if took := min(between.Sub(began), time.Since(between)); took > longest {
			t.Fatal(took)
		}
		if first.Code == decide.Failure {
			t.Fatalf("%+v", first)
		}
		if fmt.Sprint(first) != fmt.Sprint(again) {
			t.Fatalf("%+v, and again %+v", first, again)
		}
	})
}

// policies makes n policies as companies have them.
func policies(b *testing.B, n int) *decide.Set {
	list := make([]decide.Policy, n)
	for i := range list {
		text := fmt.Sprintf(`forbid (principal, action == Action::"call", resource == Tool::"tool%d") when { context.arguments.amount > 100 };`, i)
		switch i % 4 {
		case 0:
			text = fmt.Sprintf(`permit (principal in Group::"g%d", action, resource);`, i)
		case 1:
			text = fmt.Sprintf(`forbid (principal, action == Action::"call", resource) when { context.programs.contains("program%d") };`, i)
		case 2:
			text = fmt.Sprintf(`forbid (principal, action, resource) when { context.words.contains("git word%d") && !context.approved };`, i)
		}
		list[i] = decide.Policy{ID: fmt.Sprint("p", i), Text: text}
	}
	list[0].Text = "permit (principal, action, resource);"
	s, err := decide.Compile(list)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		s := policies(b, n)
		for name, arguments := range map[string]string{
			"call":  `{"amount":150,"to":"eve","note":"for the invoice of November"}`,
			"shell": `{"command":"cd src && git add -A && git commit -m 'fix: the parser takes empty lines' && go test ./... 2>&1 | tail -20","description":"Commit and test"}`,
		} {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				req := transfer(arguments)
				b.ReportAllocs()
				for range b.N {
					if d := s.Decide(req); d.Verdict != "allow" {
						b.Fatal(d)
					}
				}
			})
		}
	}
}
