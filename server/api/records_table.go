package api

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"attestd/chain"
	"attestd/chain/search"
	"attestd/crypto/strictjson"
	"attestd/server/httpapi"
)

// recordTable writes the records as comma-separated values (RFC 4180), for spreadsheets.
type recordTable struct{ *page }

const tableHeader = "index,timestamp,agentId,actionType,delegatedBy,tokenId,hash,signature,payload\r\n"

func (a recordTable) WriteTo(c *httpapi.Call, status int) error {
	out := &pieces{c: c, status: status, contentType: "text/csv; charset=utf-8; header=present"}
	if out.isHead() {
		return nil
	}
	out.WriteString(tableHeader)
	var terms search.Terms
	var unfit error
	err := a.each(c, func(r *chain.Record) {
		var token string
		if unfit == nil {
			unfit = terms.Read(r)
		}
		if unfit == nil {
			token = tokenOf(r.Delegation)
		}
		cells := []string{
			strconv.FormatInt(r.Index, 10), r.Timestamp, string(terms.Agent), string(terms.Action), joined(terms.Principals),
			token,
			r.Hash.String(), base64.RawURLEncoding.EncodeToString(r.Signature[:]), string(terms.Value),
		}
		for i, text := range cells {
			if i > 0 {
				out.WriteByte(',')
			}
			out.Write(appendCell(out.AvailableBuffer(), text))
		}
		out.WriteString("\r\n")
	}, func() (bool, error) {
		if unfit != nil {
			return false, damage(unfit)
		}
		return true, out.send(rangeBytes)
	})
	if err != nil {
		return err
	}
	return out.send(0)
}

// appendCell appends a cell. Spreadsheets would evaluate a cell that begins like a formula, and
// some ignore invisible characters before it, so an apostrophe marks it as text. A text that begins
// with an apostrophe gets one too, so that removing one restores every text.
func appendCell(dst []byte, text string) []byte {
	quoted := strings.ContainsAny(text, "\",\r\n")
	if quoted {
		dst = append(dst, '"')
	}
	if needsApostrophe(text) {
		dst = append(dst, '\'')
	}
	if !quoted {
		return append(dst, text...)
	}
	return append(append(dst, strings.ReplaceAll(text, `"`, `""`)...), '"')
}

// formulas lists the characters at the start of formulas, with their full-width forms, which East
// Asian spreadsheets treat alike.
const formulas = "=+-@＝＋－＠"

func needsApostrophe(text string) bool {
	first, _ := utf8.DecodeRuneInString(text)
	seen, _ := utf8.DecodeRuneInString(strings.TrimLeftFunc(text, unseen))
	return first == '\'' || unicode.IsControl(first) || strings.ContainsRune(formulas, seen)
}

func unseen(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
}

func joined(principals [][]byte) string {
	var b strings.Builder
	for i, p := range principals {
		if i > 0 {
			b.WriteByte(' ') // SPIFFE IDs contain no spaces
		}
		b.Write(p)
	}
	return b.String()
}

// tokenOf returns the token ID of a delegation, or "".
func tokenOf(delegation []byte) (id string) {
	if len(delegation) == 0 {
		return ""
	}
	// malformed ones have been refused
	_ = strictjson.EachMember(delegation, httpapi.MaxDepth, func(name, value []byte) {
		if string(name) == "tokenId" {
			id, _ = strictjson.AsString(value)
		}
	})
	return id
}
