package bundle

import (
	"errors"

	"attestd/internal/lazyregexp"
)

var (
	styleLink  = lazyregexp.New(`(?m)^<link rel="stylesheet" href="([^"]+)">\n`)
	scriptLink = lazyregexp.New(`(?m)^<script type="module" src="([^"]+)"></script>\n`)
)

// Page is a page of HTML and what it loads: its styles in their order and the module that it begins
// with, as they are named there.
type Page struct {
	Styles []string
	Script string
	Text   string // without the elements that load them
}

// ReadPage reads a page that has one module.
func ReadPage(src []byte) (Page, error) {
	var p Page
	for _, m := range styleLink().FindAllSubmatch(src, -1) {
		p.Styles = append(p.Styles, string(m[1]))
	}
	scripts := scriptLink().FindAllSubmatch(src, -1)
	if len(scripts) != 1 {
		return Page{}, errors.New("the page has not one script")
	}
	p.Script = string(scripts[0][1])
	p.Text = string(scriptLink().ReplaceAll(styleLink().ReplaceAll(src, nil), nil))
	return p, nil
}
