package web_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// A fuzzer changes texts from outside. Each inserted text has the mark "evil", which is in no
// template.
type fuzzer struct {
	*rand.Rand
	t *testing.T
}

// evil are values that have no place in evidence, tokens or answers. The first are what Preact
// would take for nodes of its own.
var evil = []string{
	`{"type":"evil-tag","props":{"id":"evil","class":"evil","data-evil":"1","children":"pay here"},"constructor":null,"key":null,"ref":null,"__k":null,"__b":0,"__e":null,"__v":1}`,
	`{"__b":1,"type":"div","props":{"class":"evil","dangerouslySetInnerHTML":{"__html":"<evil-tag data-evil=1></evil-tag>"}},"__v":null}`,
	`[{"type":"a","props":{"href":"javascript:evil()","class":"evil","children":"x"},"__v":null,"constructor":null}]`,
	`{"__proto__":{"type":"evil-tag","props":{"class":"evil"}},"constructor":{"prototype":{"evil":1}},"toString":"evil"}`,
	`{"__html":"<evil-tag class=evil></evil-tag>"}`,
	`"<evil-tag class=evil data-evil=1><script>violations.push('evil')</script>"`,
	`"\"><img src=x onerror=violations.push('evil') class=evil>"`,
	`"\u202eevil\u200b\u2066\ufeff\u0000\udb40\udc41"`, `"javascript:evil"`, `"../../evil?x=#/start"`,
	`[]`, `{}`, `[[[[[[]]]]]]`, `null`, `true`, `-1`, `1e308`, `12345678901234567890`, `9007199254740991`, `""`, `"0"`, `"9999-99-99T99:99:99.999Z"`, `"2026-01-02T03:04:05.678Z"`,
}

func (f *fuzzer) value() string {
	switch n := f.IntN(len(evil) + 3); n {
	case 0:
		return `"` + strings.Repeat("evil ", 20_000) + `"`
	case 1:
		return strings.Repeat(`{"evil":`, 200) + "1" + strings.Repeat("}", 200)
	case 2:
		return `[` + strings.Repeat(evil[0]+",", 300) + `1]`
	default:
		return evil[n-3]
	}
}

// placesOf calls f for each value inside a text of JSON, with a function that returns the text with
// another value in its place.
func placesOf(t *testing.T, text string, f func(v any, with func(any) string)) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var root any
	must.OK(t, decoder.Decode(&root))
	var values []any
	each(root, func(v any) { values = append(values, v) })
	places(root, func(v any) { root = v }, func(replace func(any)) {
		v := values[0]
		values = values[1:]
		f(v, func(to any) string {
			defer replace(v)
			replace(to)
			return jsonOf(t, root)
		})
	})
}

// setAll returns a text with each of its values in turn replaced with another.
func setAll(t *testing.T, text, value string) (changed []string) {
	t.Helper()
	placesOf(t, text, func(_ any, with func(any) string) { changed = append(changed, with(json.RawMessage(value))) })
	return changed
}

// mutate returns a text of JSON with one to three changes, in its values, its names or its
// characters.
func (f *fuzzer) mutate(text string) string {
	for range 1 + f.IntN(3) {
		if f.IntN(5) == 0 {
			text = f.characters(text)
			continue
		}
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		var root any
		if decoder.Decode(&root) != nil {
			return text
		}
		var at []func(any)
		var values []any
		places(root, func(v any) { root = v }, func(replace func(any)) { at = append(at, replace) })
		each(root, func(v any) { values = append(values, v) })
		i := f.IntN(len(at))
		switch of := values[f.IntN(len(values))].(type) {
		case map[string]any:
			switch name := []string{"__proto__", "constructor", "type", "props", "toString", "evil"}[f.IntN(6)]; f.IntN(3) {
			case 0:
				of[name] = json.RawMessage(f.value())
			case 1:
				delete(of, f.one(slices.Sorted(maps.Keys(of))))
			default:
				from := f.one(slices.Sorted(maps.Keys(of)))
				of[name] = of[from]
				delete(of, from)
			}
		default:
			if f.IntN(4) == 0 {
				at[i](json.RawMessage(jsonOf(f.t, of))) // the value of another place
			} else {
				at[i](json.RawMessage(f.value()))
			}
		}
		text = jsonOf(f.t, root)
	}
	return text
}

func (f *fuzzer) one(of []string) string {
	if len(of) == 0 {
		return ""
	}
	return of[f.IntN(len(of))]
}

// characters changes a text as bytes: cut off, doubled, or with another character in it.
func (f *fuzzer) characters(text string) string {
	if text == "" {
		return text
	}
	i := f.IntN(len(text))
	j := min(len(text), i+f.IntN(40))
	switch f.IntN(4) {
	case 0:
		return text[:i]
	case 1:
		return text[:j] + text[i:]
	case 2:
		return strings.ToValidUTF8(text[:i]+`<evil-tag class=evil>`+text[j:], "?")
	default:
		return strings.ToValidUTF8(text[:i]+string("\"{}[],:\\0\u202e\u2028"[f.IntN(10)])+text[i+1:], "?")
	}
}

// each calls f for each value inside v, as places does.
func each(v any, f func(any)) {
	f(v)
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			each(v[name], f)
		}
	case []any:
		for _, item := range v {
			each(item, f)
		}
	}
}

// token returns a JWT of which header or claims are changed, and the signature perhaps.
func (f *fuzzer) token(jwt string) string {
	parts := strings.Split(jwt, ".")
	i := f.IntN(8)
	if i == 0 {
		return f.characters(jwt)
	}
	part := min(i-1, 1)
	if i == 2 {
		part = 0
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[part])
	must.OK(f.t, err)
	parts[part] = base64.RawURLEncoding.EncodeToString([]byte(f.mutate(string(text))))
	return strings.Join(parts, ".")
}

// ownNames are the elements and attributes that the console's own templates name.
func ownNames(t *testing.T) []string {
	t.Helper()
	own := map[string]bool{}
	names := regexp.MustCompile(`<([a-z][a-z0-9]*)|\s([A-Za-z-]+)=|\s(required|hidden|autofocus|open|checked|disabled|multiple|novalidate)\b|\s(data-[a-z-]+)[\s>]|'?(aria-[a-z]+|data-[a-z]+|role|tabindex|id)'?:`)
	must.OK(t, filepath.WalkDir("console", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(name, "vendor") || filepath.Ext(name) == ".css" {
			return err
		}
		source, err := os.ReadFile(name)
		for _, m := range names.FindAllStringSubmatch(string(source), -1) {
			own[strings.ToLower(m[1]+m[2]+m[3]+m[4]+m[5])] = true
		}
		return err
	}))
	if own["iframe"] || own["evil-tag"] || own["data-evil"] || !own["svg"] || !own["aria-label"] || !own["data-summary"] {
		t.Fatal("the templates are not read well")
	}
	return slices.Sorted(maps.Keys(own))
}

// fuzzHooks runs in every document before its own scripts: it keeps the stream's sockets, counts
// requests under way, keeps answers, and may give another one for a path.
const fuzzHooks = `
window.sockets = []; window.pending = 0; window.given = false; window.answered = []; window.planned = null;
window.WebSocket = class extends WebSocket { constructor(...args) { super(...args); sockets.push(this); } };
const realFetch = window.fetch;
window.fetch = async (path, options) => {
	pending++;
	try {
		const response = await realFetch(path, options);
		if (!/json/.test(response.headers.get('Content-Type'))) return response;
		let text = await response.text();
		const { pathname, search } = new URL(path.url ?? path, location.href);
		answered.push([pathname + search, text]);
		if (planned && pathname + search === planned.path) { text = planned.text; window.given = true; }
		return new Response(text, { status: response.status, headers: response.headers });
	} finally {
		pending--;
	}
};`

// fuzzDriver feeds a page and looks at what has become of it.
const fuzzDriver = `(() => {
	window.own = new Set(%s);
	window.headCount = document.head.childElementCount;
	window.ofObjects ??= Object.getOwnPropertyNames(Object.prototype).length;
	const tick = () => new Promise((done) => { const c = new MessageChannel(); c.port1.onmessage = done; c.port2.postMessage(0); });
	const until = async (condition, limit) => { const end = performance.now() + limit; while (!condition() && performance.now() < end) await tick(); return Boolean(condition()); };
	const marks = 'evil-tag, [data-evil], .evil, #evil, iframe, object, embed, script:not([src]), [style*=evil], [src*=evil], [href^="javascript"], [onerror]';
	const foreign = () => [...document.querySelectorAll('#app *')].flatMap((e) => [e.localName, ...e.getAttributeNames()]).filter((name) => !own.has(name.toLowerCase()))
		.concat([...document.querySelectorAll(marks)].map((e) => e.outerHTML.slice(0, 200)))
		.concat(document.head.childElementCount === headCount ? [] : ['head'], location.search ? ['search'] : [], Object.getOwnPropertyNames(Object.prototype).length === ofObjects ? [] : ['prototype'])
		.concat(document.querySelector('[data-broken]') ? ['broken: ' + document.querySelector('[data-broken]').textContent] : []);
	const quiet = async () => { await tick(); await tick(); await until(() => pending === 0, 400); await tick(); await tick(); };
	window.look = () => [...new Set(foreign())];
	window.each = async (all, feed) => {
		const found = [];
		for (const one of all) {
			await feed(one);
			const what = look();
			if (what.length) found.push(what.join(', ') + ' of ' + JSON.stringify(one).slice(0, 3000));
		}
		return found;
	};
	window.shown = 0;
	window.feedFile = async ([name, text]) => {
		const data = new DataTransfer();
		data.items.add(new File([text], name, { type: 'application/json' }));
		document.querySelector('.drop').dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
		const said = () => [...document.querySelectorAll('[role="alert"], [data-other]')].some((one) => one.textContent.includes(name)) || document.querySelector('h2 .muted')?.textContent.includes(name);
		if (!(await until(said, 5000))) throw new Error('nothing is shown of ' + name);
		await quiet();
		if (document.querySelector('[data-evidence]')) shown++;
	};
	window.feedToken = async (token) => {
		const field = document.querySelector('textarea[name="token"]');
		field.value = token;
		field.dispatchEvent(new Event('input', { bubbles: true }));
		await quiet();
	};
	window.feedMessages = async (messages) => {
		for (const data of messages) sockets.at(-1).dispatchEvent(new MessageEvent('message', { data }));
		await new Promise((done) => setTimeout(done, 120)); // the page collects changes for 80 ms
		await quiet();
	};
	window.feedAnswer = async ([hash, path, text]) => {
		planned = { path, text };
		location.hash = hash;
		await tick();
		await quiet();
		planned = null;
	};
	// What a page asks for, and an answer that it certainly gets.
	const rest = async () => { for (let n = 0, all = 0; n < 6 && all < 40; n++, all++) { await new Promise((done) => setTimeout(done, 50)); if (pending) n = 0; } };
	window.visit = async (hash) => { location.hash = hash === '#/start' ? '#/passports' : '#/start'; await rest(); answered.length = 0; location.hash = hash; await rest(); return answered; };
	window.missed = 0;
	window.feedAsked = async ([hash, path, text]) => {
		if (location.hash === hash) { location.hash = hash === '#/passports' ? '#/verify' : '#/passports'; await quiet(); }
		given = false;
		planned = { path, text };
		location.hash = hash;
		if (!(await until(() => given, 2000))) missed++;
		await quiet();
		planned = null;
	};
	window.feedURL = async (hash) => { location.hash = hash; await tick(); await quiet(); };
	return true;
})()`

// setStrings returns a text with each of its strings in turn replaced with another.
func setStrings(t *testing.T, text, value string) (changed []string) {
	t.Helper()
	placesOf(t, text, func(v any, with func(any) string) {
		if _, is := v.(string); is {
			changed = append(changed, with(value))
		}
	})
	return changed
}

// A text of the server that is the name of a member that every object has finds nothing: not in the
// console's tables, and not in the library that draws. Each string of some answers is set to such
// names in turn.
func TestBrowserTextThatNamesMembers(t *testing.T) {
	s := startService(t, "", "")
	key := furnish(s)
	hook := s.api("POST", "/v1/webhooks", key, map[string]any{"url": "https://hooks.example.com/former"})["webhookId"].(string)
	s.api("POST", "/v1/webhooks/"+hook+"/disable", key, nil) // so that there is a reason
	b := openBrowser(t, s.base, chromedp.Flag("disable-frame-rate-limit", true), chromedp.Flag("disable-gpu-vsync", true))
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: fuzzHooks})
	b.reload()
	eval[bool](b, fmt.Sprintf(fuzzDriver, jsonOf(t, ownNames(t))))
	b.signIn(key)
	var answers [][3]string
	for _, hash := range []string{"#/webhooks", "#/agents", "#/sessions"} {
		for _, answer := range eval[[][2]string](b, fmt.Sprintf(`visit(%q)`, hash)) {
			for _, name := range []string{"__proto__", "constructor", "toString"} {
				for _, changed := range setStrings(t, answer[1], name) {
					answers = append(answers, [3]string{hash, answer[0], changed})
				}
			}
		}
	}
	if len(answers) < 30 {
		t.Fatalf("only %d answers", len(answers))
	}
	answers = answers[:min(len(answers), testenv.Rounds(60, 300))]
	for _, found := range eval[[]string](b, fmt.Sprintf(`each(%s, feedAsked)`, jsonOf(t, answers))) {
		t.Errorf("an answer makes %s", found)
	}
	if missed := eval[int](b, `missed`); missed > len(answers)/4 {
		t.Errorf("of %d answers, %d were not asked for again", len(answers), missed)
	}
	t.Logf("%d answers", len(answers))
}

// pagesOf are the addresses of the console's pages, and of some of what they show.
func pagesOf(b *browser) []string {
	return append(b.allPages(), "#/agents/agent-1", "#/proof/5", "#/chain/8", "#/sessions/run-1?agent=agent-1&kind=statement")
}

// Whatever files, tokens, answers, stream messages, the storage and the URL contain, the page has
// no element and no attribute except those of the console's own templates. ATTESTD_FUZZ_SEED
// repeats a run.
func TestBrowserFuzz(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("ATTESTD_FUZZ_SEED"); given != "" {
		var err error
		seed, err = strconv.ParseUint(given, 10, 64)
		must.OK(t, err)
	}
	t.Logf("ATTESTD_FUZZ_SEED=%d", seed)
	f := &fuzzer{rand.New(rand.NewPCG(seed, 0)), t}
	s := startService(t, "", "")
	key := furnish(s)
	b := openBrowser(t, s.base, chromedp.Flag("disable-frame-rate-limit", true), chromedp.Flag("disable-gpu-vsync", true))
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: fuzzHooks})
	driver := fmt.Sprintf(fuzzDriver, jsonOf(t, ownNames(t)))
	fresh := func() {
		t.Helper()
		must.OK(t, chromedp.Do(b.ctx, chromedp.Reload()))
		b.wait(`document.querySelector('h1')`)
		eval[bool](b, driver)
	}
	fresh()
	b.look(look{1280, "light"}) // without motion: a walk is complete at once
	b.signIn(key)
	fed := 0
	feed := func(what, with string, all any, n int) {
		t.Helper()
		fed += n
		for _, found := range eval[[]string](b, fmt.Sprintf(`each(%s, %s)`, jsonOf(t, all), with)) {
			t.Errorf("%s makes %s", what, found)
		}
	}

	// Evidence of both forms: each value replaced by what looks like a node, then any changes.
	genuine, small := evidenceOf(s, key, "/v1/evidence/8"), jsonOf(t, savedOf(s, key, "acme", 4))
	whole := sample(t, "whole.json")
	var files []string
	most := testenv.Rounds(200, 1300)
	for _, value := range evil[:testenv.Rounds(1, 3)] {
		files = append(files, setAll(t, small, value)...)
		files = append(files, setAll(t, genuine, value)...)
	}
	for i := 0; len(files) < most; i++ {
		files = append(files, f.mutate([]string{genuine, small, whole, sample(t, "control.json"), genuine}[i%5]))
	}
	b.goTo("#/proof")
	b.reads("h1", "Proof")
	for i, chunk := range slices.Collect(slices.Chunk(files, 100)) {
		named := make([][2]string, len(chunk))
		for j, text := range chunk {
			named[j] = [2]string{fmt.Sprintf("f%d.json", 100*i+j), text}
		}
		feed("a file", "feedFile", named, len(named))
	}
	if shown := eval[int](b, `shown`); shown < most/26 || shown > len(files)*2/3 {
		t.Errorf("%d of %d files were shown: the changes are lopsided", shown, len(files))
	}

	// Tokens.
	issued := s.api("POST", "/v1/agents/agent-0/passport", key, nil)["passport"].(string)
	svid := s.api("GET", "/v1/agents/agent-1/svid", key, nil)["svid"].(string)
	delegation := s.api("POST", "/v1/token-exchange", key, map[string]any{"agentId": "agent-1", "actingOn": "acme", "scope": "pay"})["token"].(string)
	tokens := make([]string, 250)
	for i := range tokens {
		tokens[i] = f.token([]string{issued, svid, delegation}[i%3])
	}
	b.goTo("#/passports")
	b.shows(`textarea[name="token"]`)
	feed("a token", "feedToken", tokens, len(tokens))

	// Messages of the stream.
	message := fmt.Sprintf(`{"type":"record","record":%s,"valid":true,"merkleRoot":%q}`, jsonOf(t, s.api("GET", "/v1/proof/8", key, nil)["record"]), strings.Repeat("0", 64))
	messages := make([]string, 200)
	for i := range messages {
		messages[i] = f.mutate(strings.Replace(message, `"index":8`, fmt.Sprintf(`"index":%d`, 15+i), 1))
	}
	b.goTo("#/live")
	b.wait(`sockets.length`)
	feed("a message", "feedMessages", slices.Collect(slices.Chunk(messages, 20)), len(messages))

	// Answers: what each page asks for is asked once, and then answered otherwise.
	hashes := pagesOf(b)
	var genuineOnes, answers [][3]string
	for _, hash := range hashes {
		asked := eval[[][2]string](b, fmt.Sprintf(`(answered.length = 0, feedURL(%q).then(() => answered))`, hash))
		for _, answer := range asked {
			one := [3]string{hash, answer[0], answer[1]}
			genuineOnes = append(genuineOnes, one)
			for range 1 + testenv.Rounds(8, 24)/len(asked) {
				answers = append(answers, [3]string{hash, answer[0], f.mutate(answer[1])})
			}
		}
	}
	for i := 0; len(answers) < 200; i++ { // a slow machine shows fewer of them in time
		one := genuineOnes[i%len(genuineOnes)]
		answers = append(answers, [3]string{one[0], one[1], f.mutate(one[2])})
	}
	f.Shuffle(len(answers), func(i, j int) { answers[i], answers[j] = answers[j], answers[i] })
	feed("an answer", "feedAnswer", answers, len(answers))

	// The URL.
	var urls []string
	for i := range 100 {
		var text string
		if json.Unmarshal([]byte(evil[i%len(evil)]), &text) != nil {
			text = evil[i%len(evil)]
		}
		hash := hashes[f.IntN(len(hashes))]
		urls = append(urls, []string{hash + "/" + text, hash + "?agent=" + text + "&q=" + text + "&log=" + text + "&__proto__=" + text, "#/" + text, hash + "/%" + text}[i%4])
	}
	feed("an address", "feedURL", urls, len(urls))

	// The data that this browser remembers may have been changed.
	stored := eval[map[string]string](b, `({ ...localStorage, ...sessionStorage, 'attestd.confirmed': '["acme SHA256:x"]' })`)
	for range 4 {
		for name, text := range stored {
			if name == "attestd.key" {
				continue
			}
			fed++
			eval[bool](b, fmt.Sprintf(`(localStorage.setItem(%s, %s), sessionStorage.setItem(%s, %s), true)`, jsString(name), jsString(f.mutate(text)), jsString(name), jsString(f.mutate(text))))
		}
		fresh()
		feed("what is kept", "feedURL", hashes[:4], 0)
	}
	t.Logf("%d texts, %d answers among them", fed, len(answers))
	if fed < 700+most {
		t.Errorf("only %d texts were shown", fed)
	}
}
