package attack

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// wrongs are invalid values for any claim.
var wrongs = []any{nil, true, -1, 1.5, raw("1e400"), raw("253402300800"), "", "x", "1.0", []any{}, []any{nil}, object{},
	raw("[[]]"), "\u0000"}

// contents returns forgeries of the claims, with the company's signature: each claim omitted, of
// another type, in another place, repeated, and with a false value.
func (t thief) contents(k kind) (list []forgery) {
	header := marshal(k.header)
	add := func(name string, claims []byte) { list = append(list, forgery{name, signed(t.own, header, claims)}) }
	within := ""
	if _, ok := k.claims[t.namespace].(object); ok {
		within = t.namespace
	}
	t.members(k.claims, "", add)
	if within != "" {
		inner := k.claims[within].(object)
		t.members(inner, within+".", func(name string, claims []byte) {
			add(name, marshal(with(k.claims, within, raw(string(claims)))))
		})
		for name, value := range inner { // out of the namespace
			add(within+"."+name+" outside", marshal(with(with(k.claims, within, without(inner, name)), name, value)))
		}
		// into the namespace
		for _, name := range []string{"iss", "sub", "aud", "jti", "iat", "nbf", "exp"} {
			add(name+" inside "+within, marshal(without(with(k.claims, within, with(inner, name, k.claims[name])), name)))
		}
		add("everything inside "+within, marshal(object{within: k.claims}))
	}
	for _, v := range t.values(k) {
		add(v.name, marshal(v.claims))
	}
	return list
}

// members corrupts each member of an object and passes the encoded result to add.
func (t thief) members(o object, prefix string, add func(string, []byte)) {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		value, what := o[name], prefix+name
		// without these it is a valid token of another kind
		optional := name == "scope" || name == "act" && prefix == ""
		if !optional {
			add("no "+what, marshal(without(o, name)))
			add(what+" in another case", marshal(with(without(o, name), strings.ToUpper(name), value)))
			add(what+" one level down", marshal(with(without(o, name), "x", object{name: value})))
			add(what+" with a NUL after its name", marshal(with(without(o, name), name+"\x00", value)))
		}
		for _, wrong := range wrongs {
			if _, isText := wrong.(string); isText && name == "scope" {
				continue // any text is valid there
			}
			add(fmt.Sprintf("%s is %.40s", what, marshal(wrong)), marshal(with(o, name, wrong)))
		}
		add(what+" in an array", marshal(with(o, name, []any{[]any{value}})))
		if name != "scope" {
			add(what+" as a text", marshal(with(o, name, string(marshal(value))+" ")))
		}
		text := strings.Trim(string(marshal(without(o, name))), "{}")
		for _, first := range []any{value, "x"} {
			again := fmt.Sprintf(`{"%s":%s,%s,"\u%04x%s":%s}`, name, marshal(first), text, name[0], name[1:], marshal(value))
			add(fmt.Sprintf("%s twice, first %.20s", what, marshal(first)), []byte(strings.Replace(again, ",,", ",", 1)))
		}
	}
}

type changed struct {
	name   string
	claims object
}

// values returns claims that are well-formed but false.
func (t thief) values(k kind) (list []changed) {
	set := func(what string, pairs ...any) {
		claims := k.claims
		for i := 0; i < len(pairs); i += 2 {
			claims = with(claims, pairs[i].(string), pairs[i+1])
		}
		list = append(list, changed{what, claims})
	}
	now := time.Now().Unix()
	set("expired a second ago", "exp", now-1, "iat", now-10)
	set("expires now", "exp", now, "iat", now-10)
	set("expired long ago", "exp", 1)
	set("valid in an hour", "nbf", now+3600, "exp", now+7200)
	set("valid in a minute", "nbf", now+60)
	set("ends before it begins", "iat", now+7200, "exp", now+3600)
	for _, aud := range []any{"service", "service:passport:v1", []any{"service", "service:passport:v1"}, []any{"other"},
		[]any{"Service"}, []any{"service "},
		[]any{"service", "service"}, []any{"*"}, object{"0": "service"}} {
		set(fmt.Sprintf("aud %s", marshal(aud)), "aud", aud)
	}
	for _, iss := range []any{"spiffe://attestd.local/ca/", "spiffe://ATTESTD.local/ca", "spiffe://other.example/ca",
		"https://attestd.local/ca",
		k.claims["sub"], []any{k.claims["iss"]}} {
		set(fmt.Sprintf("iss %s", marshal(iss)), "iss", iss)
	}
	const company = "spiffe://attestd.local/company/"
	subjects := []string{
		"spiffe://attestd.local/ca", "spiffe://attestd.local", "spiffe://other.example/company/acme/agent/deploy-bot",
		"SPIFFE://attestd.local/company/acme",
		"spiffe://attestd.local:443/company/acme", "spiffe://u@attestd.local/company/acme", company, company + "acme/",
		company + "acme/agent/", company + "/agent/x",
		company + "acme/agent/../deploy-bot", company + "acme/agent/.", company + "acme/agent/a/b", company +
			"acme/agent/a%2Fb", company + "acme/agent/a b",
		company + "acme/agent/a?x=1", company + "acme/agent/a#x", company + "acme/agents/a", company + "acme/agent/dépl",
		company + "acme/agent/a\n", " " + company + "acme",
		company + "acme/agent/" + strings.Repeat("a", 129), "https://attestd.local/company/acme", "deploy-bot",
	}
	if _, isPassport := k.claims[t.namespace]; isPassport {
		subjects = append(subjects, company+"acme", company+"globex", company+"globex/agent/deploy-bot", company+
			"acme/agent/other-bot", company+"acme/agent/Deploy-bot")
		sum := sha256.Sum256([]byte(k.good))
		set("a jti that was never issued", "jti",
			fmt.Sprintf("%x-%x-4%x-8%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])[:36])
		list = append(list, t.passportValues(k)...)
		// An issued ID with other claims than were issued.
		exp, iat := k.claims["exp"].(float64), k.claims["iat"].(float64)
		set("a longer life", "exp", int64(exp)+3600)
		set("a shorter life", "exp", int64(exp)-60)
		set("issued earlier", "iat", int64(iat)-60)
		set("valid earlier", "nbf", int64(iat)-60)
		other := k.claims["sub"].(string)[:len(company+"acme/agent/")] + "spare-bot"
		inner := maps.Clone(k.claims[t.namespace].(object))
		inner["agentId"], inner["delegationChain"] = "spare-bot", []any{company + "acme", other}
		set("another agent's", "sub", other, t.namespace, inner)
	} else {
		for name, act := range acts(company + "acme/agent/deploy-bot") {
			set(name, "act", act)
		}
	}
	for _, sub := range subjects {
		set("sub "+sub, "sub", sub)
	}
	return list
}

func (t thief) passportValues(k kind) (list []changed) {
	inner := k.claims[t.namespace].(object)
	set := func(name string, value any) {
		list = append(list, changed{fmt.Sprintf("%s %.40s", name, marshal(value)),
			with(k.claims, t.namespace, with(inner, name, value))})
	}
	for _, v := range []any{0, 2, raw("1.0"), raw("1e0"), "1"} {
		set("v", v)
	}
	for _, agent := range []any{"other-bot", "Deploy-bot", "deploy-bot ", "../deploy-bot"} {
		set("agentId", agent)
	}
	for _, org := range []any{"globex", "ACME", "acme ", "acme/agent/deploy-bot"} {
		set("org", org)
		set("orgSpiffeId", "spiffe://attestd.local/company/"+org.(string))
	}
	for _, scopes := range []any{[]any{"tool"}, []any{"tool:"}, []any{":*"}, []any{"*:*"}, []any{"tool:*", ""},
		[]any{"tool:*", nil}, []any{"tool:*:*"}, []any{"to ol:x"}, []any{"*"}, slices.Repeat([]any{"tool:*"}, 101)} {
		set("scopes", scopes)
	}
	own := k.claims["sub"]
	for _, chain := range []any{[]any{own, "spiffe://attestd.local/company/acme"},
		[]any{"spiffe://attestd.local/company/acme"}, []any{own, own.(string) + "x"},
		[]any{"spiffe://attestd.local/company/acme", own.(string) + "x", own}, []any{own, ""}} {
		set("delegationChain", chain)
	}
	return list
}

// acts returns act claims that no token may have.
func acts(id string) map[string]any {
	nested := func(n int, last any) any {
		for range n {
			o := object{"sub": id}
			if last != nil {
				o["act"] = last
			}
			last = o
		}
		return last
	}
	other := strings.Replace(id, "deploy", "other", 1)
	cycle := any(object{"sub": id})
	for i := range 12 {
		cycle = object{"sub": []string{other, id}[i%2], "act": cycle}
	}
	return map[string]any{
		"eleven actors": nested(11, nil), "a hundred actors": nested(60, nil), "two actors in a cycle": cycle,
		"act ends in null": nested(2, raw("null")), "act ends in {}": nested(2, object{}),
		"act ends in []":      nested(2, []any{}),
		"act of a stranger":   object{"sub": "spiffe://other.example/company/acme"},
		"act of no SPIFFE ID": object{"sub": "deploy-bot"},
		"act of the CA":       object{"sub": "spiffe://attestd.local/ca"}, "act and more": object{"sub": id, "iss": "x"},
		"act without sub": object{"act": object{"sub": id}}, "act of several": object{"sub": []any{id, id}},
		"act with sub twice":       raw(`{"sub":"` + id + `","sub":"` + other + `"}`),
		"act with act twice":       raw(`{"sub":"` + id + `","act":{"sub":"` + id + `"},"act":{"sub":"` + id + `"}}`),
		"a broken act deep inside": nested(9, object{"sub": 1}),
	}
}
