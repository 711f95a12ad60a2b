package test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"attestd/internal/must"
)

const (
	recordTime  = "2026-03-02T09:05:04.218Z"
	acme        = "spiffe://attestd.local/company/acme"
	delegation  = `{"act":{"sub":"` + acme + `/agent/bot"},"delegationChain":["` + acme + `","` + acme + `/agent/bot"],"subject":"` + acme + `","tokenId":"0710e78f-3d11-4bcf-813f-65167451ee57"}`
	innerSample = `{"n":1.50,"text":"a\u00e9|\ufffd"}`
)

func recordCases(t *testing.T, s *signer) []checkerCase {
	payload := func(inner string) string {
		return `{"agentId":"bot","companyId":"acme","actionType":"pay","payload":` + inner + `}`
	}
	var all []checkerCase
	add := func(genuine bool, name, text string) {
		all = append(all, checkerCase{Name: name, Kind: "record", Text: text, Genuine: genuine})
	}

	// Genuine ones with every spelling that RFC 8785 makes one of.
	for _, inner := range []string{
		`null`, `true`, `""`, `[]`, `{}`, `-0`, `0.0`, `1E2`, `1e21`, `100000000000000000000`, `1e-7`, `0.000001`, `123e-20`, `5e-324`, `1.7976931348623157e308`,
		`-12.50`, `333333333.3333333`, `9007199254740992`, `{"\ufb33":1,"\ud83d\ude00":2,"\u20ac":3,"10":4,"9":5}`, `{"__proto__":{"a":1},"constructor":null}`,
		`"\u0000\u001f\u007f\u2028\/<&\ud83d\ude00\b\t\n\f\r\"\\"`, `[[1.10,[2]],{"index":7.0}]`,
	} {
		add(true, "a payload "+inner, s.record(t, "0", recordTime, payload(inner), ""))
		add(true, "a delegated payload "+inner, s.record(t, "7", recordTime, payload(inner), delegation))
	}
	plain := s.record(t, "7", recordTime, payload(innerSample), "")
	record := s.record(t, "7", recordTime, payload(innerSample), delegation)
	add(true, "white space", strings.ReplaceAll(record, `,"`, " ,\n\t\""))

	// Parts that moved, under the very hash and signature of the genuine record.
	seal := record[strings.Index(record, `,"hash":`):]
	quote := func(text string) string { b, _ := json.Marshal(text); return string(b) }
	canonical := s.canonical(t, payload(innerSample))
	moved := func(name, index, timestamp, payload, rest string) {
		add(false, name, `{"index":`+index+`,"timestamp":`+timestamp+`,"payload":`+payload+rest+seal)
	}
	moved("the timestamp moved into the index", quote("7|"+recordTime), quote(canonical), delegation, "")
	moved("the payload moved into the timestamp", `7`, quote(recordTime+"|"+canonical), delegation, "")
	moved("the payload moved into the timestamp, with its members added", `7`, quote(recordTime+"|"+canonical),
		strings.TrimSuffix(delegation, "}")+`,"agentId":"bot","companyId":"acme","actionType":"x","payload":1}`, "")
	moved("the index as a string", `"7"`, quote(recordTime), canonical, `,"delegation":`+delegation)
	moved("the delegation moved into the payload", `7`, quote(recordTime), quote(canonical+"|"+delegation), "")

	// Each with a good hash and signature, or one that was not changed: what is wrong is the form.
	for name, index := range map[string]string{"negative": "-7", "a fraction": "7.0", "with an exponent": "7e0", "too large": "9007199254740994", "true": "true", "null": "null"} {
		add(false, "an index that is "+name, s.record(t, index, recordTime, payload("1"), ""))
	}
	for _, timestamp := range []string{"", "2026-03-02T09:05:04Z", "2026-03-02T09:05:04.218+00:00", "2026-02-30T09:05:04.218Z", "2026-03-02T24:00:00.000Z",
		"2026-03-02t09:05:04.218z", "2026-03-02 09:05:04.218Z", "２026-03-02T09:05:04.218Z", recordTime + "|x"} {
		add(false, "a timestamp "+timestamp, s.record(t, "7", timestamp, payload("1"), ""))
	}
	add(false, "a timestamp with a line's end", s.record(t, "7", recordTime+`\n`, payload("1"), ""))
	for name, p := range map[string]string{
		"another company's payload":    strings.Replace(payload("1"), "acme", "globex", 1),
		"no action in the payload":     `{"agentId":"bot","companyId":"acme","payload":1}`,
		"one member more":              strings.Replace(payload("1"), `"payload"`, `"approved":true,"payload"`, 1),
		"an agent that is no string":   strings.Replace(payload("1"), `"bot"`, `{"a":1}`, 1),
		"a payload that is a list":     `[1]`,
		"a payload that is a string":   `"x"`,
		"a company that is no string":  strings.Replace(payload("1"), `"acme"`, `["acme"]`, 1),
		"an action that is no string":  strings.Replace(payload("1"), `"pay"`, `null`, 1),
		"a payload of a delegation":    delegation,
		"no member but the inner one":  `{"payload":1}`,
		"a member named like a method": strings.Replace(payload("1"), `"payload"`, `"toString":1,"payload"`, 1),
	} {
		add(false, name, s.record(t, "7", recordTime, p, ""))
	}
	for _, c := range decisionForms(t) {
		for _, by := range []string{"", delegation} {
			decided := strings.Replace(payload("1"), `"payload"`, `"decision":`+c.Decision+`,"payload"`, 1)
			add(c.Good, "a decision: "+c.Name, s.record(t, "7", recordTime, decided, by))
		}
	}
	for name, d := range map[string]string{
		"null": `null`, "false": `false`, "empty": `""`, "a list": `[]`, "without an ID": strings.Replace(delegation, `"tokenId":"0710e78f-3d11-4bcf-813f-65167451ee57"`, `"token":"x"`, 1),
		"with one member more": strings.Replace(delegation, `"tokenId"`, `"scope":"x","tokenId"`, 1), "with an actor that is a string": strings.Replace(delegation, `{"sub":"`+acme+`/agent/bot"}`, `"bot"`, 1),
		"with an actor that is a list": strings.Replace(delegation, `{"sub":"`+acme+`/agent/bot"}`, `[]`, 1), "with a chain of numbers": strings.Replace(delegation, `["`+acme+`",`, `[1,`, 1),
	} {
		add(false, "a delegation that is "+name, s.record(t, "7", recordTime, payload("1"), d))
	}
	change := func(name, from, to string) {
		if strings.Count(record, from) == 0 {
			t.Fatalf("%s: the record has no %s", name, from)
		}
		add(false, name, strings.Replace(record, from, to, 1))
	}
	change("another number", "1.50", "1.51")
	change("another name of a member", `"hash"`, `"Hash"`)
	change("a delegation left out", `"delegation":`+delegation+`,`, "")
	change("a delegation of null", delegation, "null")
	change("a name twice, the second is signed", `"n":1.50`, `"n":9,"n":1.50`)
	change("a name twice in the record", `"index":7`, `"index":8,"index":7`)
	change("a name twice, once escaped", `"n":1.50`, `"\u006e":9,"n":1.50`)
	change("a lone surrogate for U+FFFD", `\ufffd`, `\ud800`)
	change("a member beside", `"hash"`, `"approved":true,"hash"`)
	change("a signature with padding", `"}`, `=="}`)
	change("something after it", record, record+"1")
	change("a number that no double holds", "1.50", "1.500000000000000000001")
	big := s.record(t, "7", recordTime, payload(`12345678901234567000`), "")
	add(true, "a large number", big)
	add(false, "a number that a double makes the signed one", strings.Replace(big, "12345678901234567000", "12345678901234567001", 1))
	add(false, "infinity", strings.Replace(big, "12345678901234567000", "1e400", 1))
	add(false, "no JSON number", strings.Replace(big, "12345678901234567000", "Infinity", 1))
	add(false, "the hash in capitals", upperHash(plain))
	add(false, "no JSON", plain[:len(plain)-1])
	for name, at := range map[string]string{"its first byte": `"signature":"`, "a byte of its hash": `"hash":"`} {
		i := strings.Index(plain, at) + len(at)
		add(false, "a record signed otherwise in "+name, plain[:i]+otherDigit(plain[i:i+1])+plain[i+1:])
	}
	// The last character of 86 carries two bits of the signature and four that must be zero: 16
	// spellings, one of which is right.
	end := strings.LastIndex(plain, `"}`)
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	add(false, "a signature in another spelling", plain[:end-1]+string(digits[strings.IndexByte(digits, plain[end-1])+1])+plain[end:])
	dashed := s.record(t, "7", recordTime, payload(`"`+s.untilDashed(t)+`"`), "")
	i := strings.Index(dashed, `"signature"`)
	add(false, "a signature in the other alphabet", dashed[:i]+strings.NewReplacer("-", "+", "_", "/").Replace(dashed[i:]))
	return all
}

// decisionForm is a text as the decision of a record, in the table that all checkers share.
type decisionForm struct {
	Name, Decision string
	Good           bool
}

func decisionForms(t *testing.T) (forms []decisionForm) {
	t.Helper()
	text, err := os.ReadFile("../chain/decision/cases.json")
	must.OK(t, err)
	must.OK(t, json.Unmarshal(text, &forms))
	return forms
}

func upperHash(record string) string {
	i := strings.Index(record, `"hash":"`) + len(`"hash":"`)
	return record[:i] + strings.ToUpper(record[i:i+64]) + record[i+64:]
}

func otherDigit(d string) string {
	if d == "0" {
		return "1"
	}
	return "0"
}
