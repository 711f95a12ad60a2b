package web_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/web"
)

// documented is what the reference must show of one operation, read from the document in Go.
type documented struct {
	ID       string            `json:"operationId"`
	Tags     []string          `json:"tags"`
	Summary  string            `json:"summary"`
	Role     string            `json:"x-role"`
	Tier     string            `json:"x-rate-tier"`
	Security *[]map[string]any `json:"security"`
	method   string
	path     string
}

type apiDocument struct {
	Info  struct{ Description string }
	Tags  []struct{ Name, Description string }
	Paths map[string]map[string]*documented
}

func readDocument(t *testing.T) apiDocument {
	t.Helper()
	var d apiDocument
	must.OK(t, json.Unmarshal(web.OpenAPI(), &d))
	for path, item := range d.Paths {
		for method, op := range item {
			op.method, op.path = strings.ToUpper(method), path
		}
	}
	return d
}

// of are the operations of a tag by ID.
func (d apiDocument) of(tag string) map[string]*documented {
	found := make(map[string]*documented)
	for _, item := range d.Paths {
		for _, op := range item {
			if op.Tags[0] == tag {
				found[op.ID] = op
			}
		}
	}
	return found
}

var (
	notInSlug = regexp.MustCompile(`[^\pL\pN]+`)
	headings  = regexp.MustCompile(`(?m)^##+ (.+)$`)
	tables    = regexp.MustCompile(`(?m)^\|[-| ]+\|$`)
)

func slug(name string) string { return strings.Trim(notInSlug.ReplaceAllString(name, "-"), "-") }

// shownOperation is what the page shows of one.
type shownOperation struct{ ID, Anchor, Head, Curl string }

const shownOperations = `[...document.querySelectorAll('.op')].map((e) => ({
	ID: e.dataset.operation, Anchor: e.querySelector('h2').id, Head: e.querySelector('.op-head').textContent, Curl: e.querySelector('.curl').textContent,
}))`

// Signed out, the reference shows every operation of the document with an anchor, its method, path,
// role and tier and a curl line with the server's own address and $KEY, every section with an
// anchor, and its Markdown without a mark left over.
func TestBrowserReferenceShowsTheFullDocument(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	d := readDocument(t)
	b := openBrowser(t, s.base)
	b.goTo("#/reference")
	b.shows(".resource-grid")
	b.sectionsOf("the beginning", d.Info.Description)
	total := 0
	for _, tag := range d.Tags {
		b.goTo("#/reference/" + slug(tag.Name))
		b.wait(fmt.Sprintf(`document.querySelector('h1')?.textContent === %q`, tag.Name))
		b.sectionsOf(tag.Name, tag.Description)
		want := d.of(tag.Name)
		for _, got := range eval[[]shownOperation](b, shownOperations) {
			op := want[got.ID]
			if op == nil {
				t.Errorf("%s: %s is no operation of it, or stands there twice", tag.Name, got.ID)
				continue
			}
			delete(want, got.ID)
			total++
			op.check(t, s.base, got)
		}
		if len(want) > 0 {
			t.Errorf("%s lacks %v", tag.Name, slices.Collect(maps.Keys(want)))
		}
	}
	if total < 60 {
		t.Errorf("only %d operations", total)
	}
}

func (op *documented) check(t *testing.T, base string, got shownOperation) {
	t.Helper()
	if got.Anchor != "at-"+op.ID {
		t.Errorf("%s: anchor %q", op.ID, got.Anchor)
	}
	for _, part := range []string{op.Summary, op.method, op.path, "tier " + op.Tier} {
		if !strings.Contains(got.Head, part) {
			t.Errorf("%s: the head %q lacks %q", op.ID, got.Head, part)
		}
	}
	fixed, _, _ := strings.Cut(op.path, "{")
	if !strings.HasPrefix(got.Curl, "curl -sS") || !strings.Contains(got.Curl, "'"+base+fixed) || strings.ContainsAny(strings.SplitN(got.Curl, "\n", 2)[0], "{}") {
		t.Errorf("%s: %s", op.ID, got.Curl)
	}
	if op.method != "GET" && !strings.Contains(got.Curl, "-X "+op.method) {
		t.Errorf("%s: no method in %s", op.ID, got.Curl)
	}
	needed := op.Security == nil
	if strings.Contains(got.Curl, `-H "Authorization: Bearer $KEY"`) != needed {
		t.Errorf("%s: a credential is needed: %v, and the line is %s", op.ID, needed, got.Curl)
	}
	if needed && !strings.Contains(got.Head, "role "+op.Role) {
		t.Errorf("%s: the head %q does not say the role %s", op.ID, got.Head, op.Role)
	}
}

// sectionsOf checks that the headings and tables of a text are there, and that no mark of Markdown
// is left in any text.
func (b *browser) sectionsOf(where, markdown string) {
	b.t.Helper()
	for _, m := range headings.FindAllStringSubmatch(markdown, -1) {
		if !eval[bool](b, fmt.Sprintf(`document.getElementById(%q)?.matches('.prose h2') ?? false`, "at-"+slug(m[1]))) {
			b.t.Errorf("%s has no section %q", where, m[1])
		}
	}
	if got, want := eval[int](b, `document.querySelectorAll('.reference-main > .prose table').length`), len(tables.FindAllString(markdown, -1)); got != want {
		b.t.Errorf("%s has %d tables, not %d", where, got, want)
	}
	left := eval[[]string](b, `[...document.querySelectorAll('.prose')].map((e) => {
		const copy = e.cloneNode(true);
		for (const code of copy.querySelectorAll('code, pre')) code.remove();
		return copy.textContent;
	}).filter((text) => /\*\*|`+"`"+`|\|--|\]\(|^#/.test(text))`)
	if len(left) > 0 {
		b.t.Errorf("%s: Markdown is left in %q", where, left)
	}
}

// A deep link opens at its operation, whose heading has the focus; the contents mark it, and prose
// leads to other operations and sections.
func TestBrowserReferenceDeepLinks(t *testing.T) {
	s := startService(t, "", "")
	b := openPage(t, s.base+"/#/reference/rotatePassport")
	atTop := func(id string) {
		t.Helper()
		b.wait(fmt.Sprintf(`(() => { const top = document.getElementById('at-%s')?.getBoundingClientRect().top; return top > -5 && top < innerHeight / 2; })()`, id))
	}
	b.reads("h1", "Passports")
	atTop("rotatePassport")
	b.wait(`document.activeElement.id === 'at-rotatePassport'`)
	b.wait(`document.querySelector('.contents [aria-current="location"]')?.hash === '#/reference/rotatePassport'`)
	b.goTo("#/reference/Rate-limits")
	b.reads("h1", "API reference")
	atTop("Rate-limits")
	b.press("GET /v1/chain")
	b.wait(`location.hash === '#/reference/getChain'`)
	atTop("getChain")
	// The same link again leads there again.
	eval[bool](b, `(scrollTo(0, 0), document.querySelector('[data-operation="getChain"] .op-path').click(), true)`)
	atTop("getChain")
	b.goTo("#/reference/nothing-of-that-name")
	b.reads(".notice", "has no “nothing-of-that-name”")
}

// The slash focuses the search, which looks at names, paths, prose and parameters; arrows and Enter
// lead to what it finds, and Escape ends it.
func TestBrowserReferenceSearch(t *testing.T) {
	s := startService(t, "", "")
	b := openPage(t, s.base+"/#/reference")
	b.shows(".resource-grid")
	must.OK(t, chromedp.Do(b.ctx, chromedp.KeyEvent("/")))
	b.wait(`document.activeElement.id === 'reference-search'`)
	b.fill("#reference-search", "idempotency-key")
	b.wait(`[...document.querySelectorAll('.found a')].some((a) => a.hash === '#/reference/attest')`)
	b.fill("#reference-search", "no such words")
	b.reads(".reference-search", "No operation matches all of these words")
	b.fill("#reference-search", "post revoke passport")
	b.wait(`document.querySelector('.found a')?.hash === '#/reference/revokePassport'`)
	must.OK(t, chromedp.Do(b.ctx, chromedp.KeyEvent("\r")))
	b.wait(`location.hash === '#/reference/revokePassport'`)
	b.reads("h1", "Revocation")
}

// Without a credential, public operations can be tried, and the others say that they need one.
func TestBrowserReferenceTrySignedOut(t *testing.T) {
	s := startService(t, "", "")
	b := openPage(t, s.base+"/#/reference/getHealth")
	b.try("getHealth")
	b.press("Send GET")
	b.shows(`[data-operation="getHealth"] [data-status="200"]`)
	b.reads(`[data-operation="getHealth"] .try-answer`, `"ok"`)
	b.goTo("#/reference/getCompany")
	b.try("getCompany")
	b.reads(`[data-operation="getCompany"] .try`, "sign in")
	b.goTo("#/reference/deleteKey")
	b.try("deleteKey")
	b.reads(`[data-operation="deleteKey"] .try`, "can’t be sent from here")
}

// try opens the form of an operation.
func (b *browser) try(id string) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`(() => {
		const found = document.querySelector('[data-operation="%s"] .try');
		for (const other of document.querySelectorAll('.try')) other.open = other === found;
		return found;
	})()`, id))
}

// Signed in, a GET is sent at once with the session's credential, in a header alone; a POST shows
// its method, path and body first, does nothing when that is cancelled, and appends when it is
// confirmed.
func TestBrowserReferenceTrySignedIn(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/reference/getCompany")
	b.try("getCompany")
	b.press("Send GET")
	b.shows(`[data-operation="getCompany"] [data-status="200"]`)
	b.reads(`[data-operation="getCompany"] .try-answer`, "acme")

	b.goTo("#/reference/attest")
	b.try("attest")
	length := func() int { return len(s.api("GET", "/v1/chain", key, nil)["records"].([]any)) }
	b.press("Send POST")
	b.shows("dialog[open]")
	for _, part := range []string{"POST /v1/attest", "Content-Type: application/json", `"agentId": "deploy-bot"`} {
		b.reads("dialog[open] pre", part)
	}
	if eval[bool](b, fmt.Sprintf(`document.querySelector('dialog').textContent.includes(%s)`, jsString(key))) {
		t.Error("the dialog shows the credential")
	}
	b.press("Cancel")
	b.wait(`!document.querySelector('dialog')`)
	if n := length(); n != 0 {
		t.Fatalf("cancelled, and the chain has %d records", n)
	}
	b.press("Send POST")
	b.shows("dialog[open]")
	b.wait(`(document.querySelector('dialog[open] button.primary')?.click(), true)`)
	b.shows(`[data-operation="attest"] [data-status="201"]`)
	if n := length(); n != 1 {
		t.Errorf("confirmed, and the chain has %d records", n)
	}
	// A refusal is an answer like others.
	b.fill(`[data-operation="attest"] [name="body"]`, `{"agentId":1}`)
	b.press("Send POST")
	b.wait(`(document.querySelector('dialog[open] button.primary')?.click(), document.querySelector('[data-operation="attest"] [data-status="400"]'))`)
	if urls := eval[[]string](b, `performance.getEntriesByType('resource').map((e) => e.name).concat(location.href)`); slices.ContainsFunc(urls, func(u string) bool { return strings.Contains(u, key) }) {
		t.Errorf("the credential stands in a URL: %v", urls)
	}
}

// The curl lines of the page work as they are, once KEY is set.
func TestBrowserReferenceCurlRuns(t *testing.T) {
	testenv.Needs(t, testenv.Curl)
	s := startService(t, "", "")
	key := s.company("acme")
	b := openBrowser(t, s.base)
	for _, tt := range []struct{ tag, id, want string }{
		{"Service", "getHealth", `"status":"ok"`},
		{"Agents", "registerAgent", `"agentId":"deploy-bot"`},
		{"Attestation", "attest", `"actionType":"deploy"`},
		{"Chain", "getChain", `"records":[{`},
		{"Passports", "issuePassport", `"passport":"ey`},
		{"Discovery", "getPublicKey", `"fingerprint":"`},
	} {
		b.goTo("#/reference/" + tt.id)
		b.reads("h1", tt.tag)
		line := eval[string](b, fmt.Sprintf(`document.querySelector('[data-operation="%s"] .curl').textContent`, tt.id))
		cmd := exec.Command("sh", "-c", line)
		cmd.Env = append(os.Environ(), "KEY="+key)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("%s\n%v: %s", line, err, out)
		}
	}
}
