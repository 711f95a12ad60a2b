package web_test

import (
	"regexp"
	"strconv"
	"testing"

	"attestd/internal/testenv"
)

var wholePayload = regexp.MustCompile(`\{"index":(\d+),"timestamp":"[^"]*","payload":(\{.*?\}),"hash":"[0-9a-f]{64}"`)

// prunedBelow leaves actions below an index without their payloads.
func prunedBelow(end int) func(path string, answer []byte) []byte {
	return func(path string, answer []byte) []byte {
		if path != "/v1/chain" {
			return answer
		}
		return wholePayload.ReplaceAllFunc(answer, func(record []byte) []byte {
			at := wholePayload.FindSubmatchIndex(record)
			if index, _ := strconv.Atoi(string(record[at[2]:at[3]])); index >= end {
				return record
			}
			return append(append(append([]byte{}, record[:at[4]]...), `null,"pruned":true`...), record[at[5]:]...)
		})
	}
}

// Records whose payload was pruned are listed and opened as such, and are no failure. Nothing of
// them is green, nor the log that has them, though the key is confirmed.
func TestBrowserShowsPrunedRecords(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 20)
	b := openBrowser(t, lie(t, s, prunedBelow(5)))
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/records?order=oldest")
	b.look(look{1280, "light"})
	b.reads(`.records-count`, "none fails")
	b.tall()
	b.wait(`[...document.querySelectorAll('.vlist-row')].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map((row) =>
		row.querySelector('.row-verdict.ok') ? (row.innerText.includes('pruned') ? '!' : 'o') :
		row.querySelector('.row-verdict.warn') && row.innerText.includes('payload pruned') ? 'p' : '?').join('') ===
		'ppppp' + 'ooooooooooooooo'`)
	b.goTo("#/records/3")
	b.reads(`section[data-check="warn"]`, "Payload pruned.")
	if n := eval[int](b, `document.querySelectorAll('section[data-check="ok"]').length`); n != 0 {
		t.Errorf("%d verdicts of an open record without its payload are green", n)
	}
	b.goTo("#/verify")
	b.press("Verify the whole chain")
	b.shows(`[data-verdict="pruned"][data-tone="warn"]`)
	b.reads(`[data-verdict="pruned"]`, "5 records")
	if n := eval[int](b, `document.querySelectorAll('.nav .dot.bad, [data-verdict] .ok').length`); n != 0 {
		t.Errorf("the log with pruned records is red, or green, in %d places", n)
	}
}
