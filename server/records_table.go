package server

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"attestd/chain"
	"attestd/chain/search"
	"attestd/crypto/strictjson"
)

// recordTable is the records as comma-separated values (RFC 4180), for spreadsheets.
type recordTable struct{ *page }

const tableHeader = "index,timestamp,agentId,actionType,delegatedBy,tokenId,hash,signature,payload\r\n"

func (a recordTable) writeTo(c *call, status int) error {
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
			strconv.FormatInt(r.Index, 10), r.Timestamp, string(terms.Agent), string(terms.Action), joined(terms.Principals), token,
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

// appendCell appends a cell. One that begins as a formula does would be carried out by
// spreadsheets, some of which leave out what cannot be seen before it: an apostrophe makes it a
// text. What begins with an apostrophe itself gets one too, so that to remove one gives every text
// back.
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

// formulas are the characters that formulas begin with, in their wide form too, which spreadsheets
// of East Asia take for the same.
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
			b.WriteByte(' ') // no SPIFFE ID has one
		}
		b.Write(p)
	}
	return b.String()
}

// tokenOf is the ID of the token of a delegation, "" where there is none.
func tokenOf(delegation []byte) (id string) {
	if len(delegation) == 0 {
		return ""
	}
	// what is malformed has been refused
	_ = strictjson.EachMember(delegation, maxDepth, func(name, value []byte) {
		if string(name) == "tokenId" {
			id, _ = strictjson.AsString(value)
		}
	})
	return id
}
