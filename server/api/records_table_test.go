package api

import (
	"encoding/csv"
	"strings"
	"testing"
)

// A cell that a spreadsheet may read as a formula has an apostrophe before it, and without that one
// apostrophe it is always the text itself.
func TestCells(t *testing.T) {
	t.Parallel()
	for text, marked := range map[string]bool{
		"": false, "a": false, "a=1": false, " a": false, "{\"=\":1}": false, "1-2": false, "é": false, "\u200ba": false,
		"=1": true, "+1": true, "-1": true, "@a": true, "＝1": true, "＋1": true, "－1": true, "＠a": true,
		" =1": true, "\t=1": true, "\ta": true, "\r": true, "\n": true, "\x00=1": true, "\u00a0=1": true, "\ufeff=1": true, "\u202e\u200b =1": true,
		"'": true, "'=1": true, "a\r\n=1": false, `=HYPERLINK("x","y")`: true, "\"": false,
	} {
		line := string(appendCell(nil, text)) + ",end\r\n"
		// that reader reads \r\n as \n in a cell too
		cells, err := csv.NewReader(strings.NewReader(strings.ReplaceAll(line, "\r", "␍"))).Read()
		if err != nil || len(cells) != 2 {
			t.Fatalf("%q: %q, %v", text, cells, err)
		}
		cell := strings.ReplaceAll(cells[0], "␍", "\r")
		if rest, isMarked := strings.CutPrefix(cell, "'"); isMarked != marked || rest != text {
			t.Errorf("%q stands as %q", text, cell)
		}
	}
}
