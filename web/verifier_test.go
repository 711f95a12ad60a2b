package web

import (
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// The page's policy allows the one script and the one style in it, by their hashes, and
// nothing from anywhere.
func TestPage(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"p/page.html": "<head>\n<meta content=\"{{policy}}\">\n<link rel=\"stylesheet\" href=\"../a.css\">\n<link rel=\"stylesheet\" href=\"b.css\">\n</head>\n" +
			"<body>\n<script type=\"module\" src=\"../c/vendor/x.js\"></script>\n</body>\n<!-- {{licences}}-->\n",
		"a.css": "a {}\n", "p/b.css": "b {}\n", "c/vendor/x.js": "export const x = 1;\n", "c/vendor/LICENSE-x": "Take it.\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	made, err := joinPage(files, "p/page.html")
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
