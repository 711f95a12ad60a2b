package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// The TypeScript client works in a browser as it is built: a page of the service's own origin
// appends, checks what it gets with a pinned key, and follows the stream, with which its credential
// goes as a subprotocol.
func TestBrowserTypeScriptClient(t *testing.T) {
	dist, err := filepath.Abs("../sdk/typescript/dist")
	must.OK(t, err)
	if _, err := os.Stat(filepath.Join(dist, "index.js")); err != nil {
		testenv.Missing(t, "the TypeScript client is not built: npm ci --prefix sdk/typescript && npm run build --prefix sdk/typescript")
	}
	s := startService(t, "", "")
	key := s.company("acme")
	service, err := url.Parse(s.base)
	must.OK(t, err)
	pages := http.NewServeMux()
	pages.Handle("/dist/", http.StripPrefix("/dist/", http.FileServer(http.Dir(dist))))
	pages.Handle("/v1/", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(service)
		r.Out.Header.Del("Origin") // to the browser, page and service are one origin
	}})
	pages.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!doctype html><link rel="icon" href="data:,"><h1>A page</h1>`)
	})
	own := httptest.NewServer(pages)
	t.Cleanup(own.Close)
	public := s.api("GET", "/v1/ca/public-key?companyId=acme", key, nil)

	b := openPage(t, own.URL+"/")
	got := eval[string](b, fmt.Sprintf(`(async () => {
		const [{ Client }, { Keys, verifyRecord }] = await Promise.all([import('/dist/index.js'), import('/dist/verify.js')]);
		const client = new Client({ url: location.origin, credential: %s });
		const record = await client.attest({ agentId: 'bot', actionType: 'seen', payload: { cut: 'a\ud83d' } });
		await verifyRecord(record, await Keys.pin(await client.getPublicKeys({ companyId: 'acme' }), %s));
		for await (const { record: followed } of client.stream({ from: 0 })) return followed.hash === record.hash ? record.payload.payload.cut : 'another record';
	})().catch(String)`, jsString(key), jsString(public["fingerprint"].(string))))
	if got != "a\ufffd" {
		t.Errorf("the page says %q", got)
	}
}
