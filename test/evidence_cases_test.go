package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"attestd/internal/must"
)

// sampleKey is the first key of the samples, from which all others follow.
const sampleKey = "SHA256:M54v-RdjBQe2pCO1zghOKF0fpl2Ts-J6YZXTu-vJriM"

func evidenceSample(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../chain/evidence/testdata", name))
	must.OK(t, err)
	return string(text)
}

// evidenceCases are genuine files and those that were changed: as package evidence's own list says
// and in odd spellings, with a key, with a policy and with nothing; each value of two samples, with
// a key; and odd signatures and policies.
func evidenceCases(t *testing.T) (all []evidenceCase) {
	t.Helper()
	policy := evidenceSample(t, "policy")
	add := func(name, file string) {
		all = append(all, evidenceCase{Name: name, File: []byte(file)}, evidenceCase{Name: name + ", with a key", File: []byte(file), Key: sampleKey},
			evidenceCase{Name: name + ", with a policy", File: []byte(file), Policy: policy})
	}
	for _, name := range []string{"whole.json", "small.json", "control.json", "rotated.json", "signed.json", "admitted.json", "decided.json"} {
		add(name, evidenceSample(t, name))
	}
	for name, file := range mutations(t) {
		add(name, file)
	}
	whole := evidenceSample(t, "whole.json")
	for name, file := range spellings(t, whole) {
		add(name, file)
	}
	for _, name := range []string{"whole.json", "control.json", "signed.json", "decided.json"} {
		everyValue(t, evidenceSample(t, name), func(path, file string) {
			all = append(all, evidenceCase{Name: path + " of " + name, File: []byte(file), Key: sampleKey})
		})
	}
	for name, file := range oddSignatures(t, whole) {
		add(name, file)
	}
	odd := oddKey(t)
	add("a key of low order, by which anyone can sign", odd.file)
	all = append(all, evidenceCase{Name: "a key of low order, which is trusted", File: []byte(odd.file), Key: odd.fingerprint})
	for name, policy := range policies(policy) {
		for _, sample := range []string{"whole.json", "control.json"} {
			all = append(all, evidenceCase{Name: sample + " with " + name, File: []byte(evidenceSample(t, sample)), Policy: policy})
		}
	}
	all = slices.Concat(all, sizeCases(t), rotationCases(t), statementCases(t), sessionCases(t), decisionCases(t))
	slices.SortStableFunc(all, func(a, b evidenceCase) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// decisionCases are files with decisions, genuine and by an operator with every key of the company.
func decisionCases(t *testing.T) (all []evidenceCase) {
	t.Helper()
	var list []struct{ Name, File, Code, Says string }
	must.OK(t, json.Unmarshal([]byte(evidenceSample(t, "decisions.json")), &list))
	for _, c := range list {
		one := evidenceCase{Name: "decision: " + c.Name, File: []byte(c.File), Key: sampleKey}
		if c.Says != "" {
			one.Says = []string{c.Says}
		}
		all = append(all, one)
		if got := one.verdict(); c.Code == "" && got != "holds said" || c.Code != "" && got != "fails "+c.Code {
			t.Errorf("%s: %s", one.Name, got)
		}
	}
	return all
}

// mutations are package evidence's own: a JSON Pointer says what is changed, and one of the other
// members how.
func mutations(t *testing.T) map[string]string {
	t.Helper()
	var list []struct {
		Name, Of, At, Find, Replace string
		Set, Add                    json.RawMessage
		Remove, Again               bool
	}
	must.OK(t, json.Unmarshal([]byte(evidenceSample(t, "mutations.json")), &list))
	files := make(map[string]string)
	for _, m := range list {
		sample := evidenceSample(t, m.Of+".json")
		if m.At == "" {
			files[m.Name] = strings.Replace(sample, m.Find, m.Replace, 1)
			continue
		}
		path := strings.Split(m.At, "/")[1:]
		last := path[len(path)-1]
		at, _ := strconv.Atoi(last)
		root := parsed(t, sample)
		changed := within(root, path[:len(path)-1], func(parent any) any {
			list, isList := parent.([]any)
			members, _ := parent.(map[string]any)
			old, set := any(nil), func(v any) { members[last] = v }
			if old = members[last]; isList && !m.Remove && m.Add == nil {
				old, set = list[at], func(v any) { list[at] = v }
			}
			switch {
			case m.Remove && isList:
				return slices.Delete(list, at, at+1)
			case m.Remove:
				delete(members, last)
			case m.Again:
				return slices.Insert(list, at, list[at])
			case m.Add != nil:
				return slices.Insert(list, at, parsed(t, string(m.Add)))
			case m.Set != nil:
				set(parsed(t, string(m.Set)))
			default:
				set(strings.Replace(old.(string), m.Find, m.Replace, 1))
			}
			return parent
		})
		files[m.Name] = text(t, changed)
	}
	return files
}

// parsed keeps numbers as they are spelt.
func parsed(t *testing.T, text string) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	must.OK(t, d.Decode(&v))
	return v
}

// within puts what f makes of the value at a path in its place.
func within(v any, path []string, f func(any) any) any {
	if len(path) == 0 {
		return f(v)
	}
	if list, ok := v.([]any); ok {
		i, _ := strconv.Atoi(path[0])
		list[i] = within(list[i], path[1:], f)
	} else {
		members := v.(map[string]any)
		members[path[0]] = within(members[path[0]], path[1:], f)
	}
	return v
}

// everyValue leaves out, changes and exchanges each value of a file, whatever it is in, one at a
// time.
func everyValue(t *testing.T, sample string, yield func(path, file string)) {
	t.Helper()
	root := parsed(t, sample)
	var walk func(v any, path string, set func(any))
	walk = func(v any, path string, set func(any)) {
		try := func(how string, changed any) {
			set(changed)
			yield(path+" "+how, text(t, root))
			set(v)
		}
		switch v := v.(type) {
		case map[string]any:
			try("as null", nil)
			for _, name := range slices.Sorted(maps.Keys(v)) {
				member := v[name]
				delete(v, name)
				yield(path+"/"+name+" left out", text(t, root))
				v[name] = member
				walk(member, path+"/"+name, func(changed any) { v[name] = changed })
			}
			try("with a member more", object(v, map[string]any{"more": true}))
			try("in a list", []any{v})
		case []any:
			try("as null", nil)
			for i, element := range v {
				walk(element, fmt.Sprint(path, "/", i), func(changed any) { v[i] = changed })
				try(fmt.Sprint("without ", i), slices.Delete(slices.Clone(v), i, i+1))
			}
			try("with an element more", append(slices.Clone(v), "more"))
		case string:
			try("longer", v+"x")
			if middle := len(v) / 2; v != "" && v[middle] < 0x80 {
				try("changed in its middle", v[:middle]+otherDigit(v[middle:middle+1])+v[middle+1:])
				try("cut", v[:middle])
			}
		case json.Number:
			try("as 7", json.Number("7"))
			if !strings.Contains(string(v), "e") {
				try("in another spelling", v+"e0")
			}
		}
	}
	walk(root, "", func(v any) { root = v })
}

// spellings are of the same values in other spellings, which is no other file, and of what is no
// JSON to some and JSON to others.
func spellings(t *testing.T, whole string) map[string]string {
	t.Helper()
	replaced := func(from, to string) string {
		if !strings.Contains(whole, from) {
			t.Fatalf("the sample has no %s", from)
		}
		return strings.Replace(whole, from, to, 1)
	}
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	var indented bytes.Buffer
	must.OK(t, json.Indent(&indented, []byte(whole), "\r", "\t"))
	return map[string]string{
		"white space":                           indented.String(),
		"members in another order":              text(t, parsed(t, whole)),
		"a zero of a large power":               replaced("-0.0", "0e99999999999999999999"),
		"a number in another spelling":          replaced("1e2", "0.10E+3"),
		"an index that is -0":                   replaced(`{"kid":"339e2ff917630507","fromIndex":0}`, `{"kid":"339e2ff917630507","fromIndex":-0}`),
		"an index with a leading zero":          replaced(`"index":2`, `"index":02`),
		"an index that is large":                replaced(`"index":2`, `"index":9007199254740991`),
		"an index that is too large":            replaced(`"index":2`, `"index":9007199254740992`),
		"a size that is large":                  replaced(`"size":5`, `"size":9007199254740991`),
		"a number that is infinite":             replaced("1e2", "1e400"),
		"a number that is too small":            replaced("1e2", "1e-400"),
		"a number that is none":                 replaced("1e2", "NaN"),
		"a number with many digits":             replaced("1e2", "1"+strings.Repeat("0", 5000)),
		"a byte order mark":                     "\ufeff" + whole,
		"bytes that are no UTF-8":               replaced("Grüße", "Gr\xff"),
		"a control character":                   replaced("Grüße", "Gr\x01"),
		"a lone surrogate as a name":            replaced(`"version"`, `"\ud800"`),
		"nothing":                               "",
		"white space that JSON has not":         "\u00a0" + whole,
		"as deep as it may be":                  replaced("true]", deep(154)+"]"),
		"too deep":                              replaced("true]", deep(157)+"]"),
		"far too deep":                          replaced("true]", deep(200_000)+"]"),
		"a name of a method":                    replaced(`"version"`, `"__proto__"`),
		"a year of 0":                           replaced("2026-11-21T09:00:09", "0000-02-29T09:00:09"),
		"a 29 February that was not":            replaced("2026-11-21T09:00:09", "2026-02-29T09:00:09"),
		"a second of 60":                        replaced("2026-11-21T09:00:09", "2026-11-21T09:00:60"),
		"an hour of 24":                         replaced("2026-11-21T09:00:09.000", "2026-11-21T24:00:00.000"),
		"digits of another script":              replaced("2026-11-21T09:00:09", "２026-11-21T09:00:09"),
		"two sentences in one":                  replaced(`beside it.","That what`, `beside it.\nThat what`),
		"a sentence more":                       replaced(`"notProven":[`, `"notProven":["more",`),
		"a checkpoint without its last break":   replaced(`ug4Ag==\n"`, `ug4Ag=="`),
		"a checkpoint with a break more":        replaced(`ug4Ag==\n"`, `ug4Ag==\n\n"`),
		"a checkpoint with a carriage return":   replaced(`ug4Ag==\n"`, `ug4Ag==\r\n"`),
		"a checkpoint with an extension":        replaced(`n30Y=\n\n`, `n30Y=\nmore\n\n`),
		"a root with a stray bit":               replaced(`n30Y=\n`, `n30Z=\n`),
		"a cosignature twice":                   replaced(`\n— witness-102`, `\n— witness-102.example DTfBIwAAAABrAV2eP8cwrRwnzUXMqlT0GrnAh8ddURVRhM02Z1SLN36OpqfL7m40YVu2FIUtsEJcP5aBqpMlZQKQ6RDWNnJ17ug4Ag==\n— witness-102`),
		"a size with a leading zero":            replaced(`\n5\nVYeN`, `\n05\nVYeN`),
		"a hyphen for a dash":                   replaced(`\n\n— log`, `\n\n- log`),
		"two spaces in a signature line":        replaced(`— witness-101.example `, `— witness-101.example  `),
		"a fingerprint of 44 characters":        replaced(`"fingerprint":"SHA256:M54v`, `"fingerprint":"SHA256:AM54v`),
		"a vkey of a log among the witnesses":   replaced("witness-101.example+37c8a343+BN", "witness-101.example+37c8a343+AN"),
		"a vkey with another key ID":            replaced("witness-101.example+37c8a343", "witness-101.example+37c8a344"),
		"a witness with a space in its name":    replaced(`"witness-101.example+`, `"witness 101.example+`),
		"a passport in capitals":                replaced(`"jti":"0b9b5c5e`, `"jti":"0B9B5C5E`),
		"the control log for that of actions":   replaced(`"log":"actions","logId"`, `"log":"control","logId"`),
		"a logId in capitals":                   replaced(`"logId":"1111111111`, `"logId":"AAAAAAAAAA`),
		"a company with another character":      replaced(`{"format":"attestd-evidence/v1","companyId":"acme"`, `{"format":"attestd-evidence/v1","companyId":"acmé"`),
		"a company of a line's end":             replaced(`{"format":"attestd-evidence/v1","companyId":"acme"`, `{"format":"attestd-evidence/v1","companyId":"acme\n"`),
		"a delegation in another spelling":      replaced(`"delegation":{"act":{"sub":"spiffe:`, `"delegation":{"act":{"sub":"spiffe\u003a`),
		"a PEM without its last break":          replaced(`-----END PUBLIC KEY-----\n"`, `-----END PUBLIC KEY-----"`),
		"a by that is a number, in a change":    replaced(`"by":"api-key:9f86d081884c7d65","jti"`, `"by":7,"jti"`),
		"a format that is a list":               replaced(`"format":"attestd-evidence/v1"`, `"format":["attestd-evidence/v1"]`),
		"a log that is a list":                  replaced(`"log":"actions","record"`, `"log":["actions"],"record"`),
		"a name that begins as another's":       replaced(`"companyId":"acme","log"`, `"companyI":"acme","companyId":"acme","log"`),
		"a member that every object inherits":   replaced(`"notProven":`, `"toString":1,"notProven":`),
		"a member of an object's prototype":     replaced(`"notProven":`, `"__proto__":1,"notProven":`),
		"sixty-one steps":                       replaced(`"hexProof":{"proof":[`, `"hexProof":{"proof":[`+strings.Repeat(`{"sibling":"`+strings.Repeat("0", 64)+`","position":"left"},`, 58)),
		"seventeen witnesses":                   replaced(`"witnesses":[`, `"witnesses":[`+strings.Repeat(`"x",`, 15)),
		"a status that is a list of characters": replaced(`"status":"revoked"`, `"status":["revoked"]`),
	}
}

// policies are others than the sample, of which some are none.
func policies(sample string) map[string]string {
	replaced := func(from, to string) string { return strings.Replace(sample, from, to, 1) }
	lines := strings.SplitAfter(sample, "\n")
	return map[string]string{
		"no quorum":                           replaced("quorum one\n", ""),
		"a quorum of none":                    replaced("quorum one", "quorum none"),
		"both witnesses":                      replaced("group one any a b", "group one all a b"),
		"both witnesses, by number":           replaced("group one any a b", "group one 2 a b"),
		"one witness alone":                   replaced("quorum one", "quorum b"),
		"groups in groups":                    replaced("group one any a b", "group x all a\ngroup y all b\ngroup one 1 x y"),
		"none as a member":                    replaced("group one any a b", "group one any a none"),
		"more than there are":                 replaced("group one any a b", "group one 3 a b"),
		"a number with a leading zero":        replaced("group one any a b", "group one 01 a b"),
		"a member twice":                      replaced("group one any a b", "group one any a a"),
		"a member that is not there":          replaced("group one any a b", "group one any a c"),
		"a member of two groups":              replaced("group one any a b", "group two any a\ngroup one any a b"),
		"a quorum that is not there":          replaced("quorum one", "quorum two"),
		"two quorums":                         sample + "quorum none\n",
		"a witness twice":                     replaced("group", strings.Replace(lines[2], "witness a", "witness c", 1)+"group"),
		"a name twice":                        replaced("witness b", "witness a"),
		"the last log's line left out":        strings.Join(lines[1:], ""),
		"the lines of logs exchanged":         strings.Join(append([]string{lines[1], lines[0]}, lines[2:]...), ""),
		"a witness's key as a log's":          "log " + strings.Fields(lines[2])[2] + "\n" + sample,
		"a log's key as a witness's":          replaced("group", "witness c "+strings.Fields(lines[0])[1]+"\ngroup"),
		"an address":                          replaced(lines[0], strings.TrimSpace(lines[0])+" https://log.example/\n"),
		"two addresses":                       replaced(lines[0], strings.TrimSpace(lines[0])+" https://log.example/ x\n"),
		"comments, tabs and empty lines":      "# a comment\n\n \t \n" + replaced("group one any a b", "\tgroup  one\tany a b "),
		"a control character":                 replaced("quorum", "\x01quorum"),
		"a carriage return":                   strings.ReplaceAll(sample, "\n", "\v\n"),
		"another word":                        sample + "trust me\n",
		"another origin with the same key ID": replaced("log log.example", "log log.examplf"),
	}
}
