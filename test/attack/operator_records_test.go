package attack

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
)

// substitution is a change of what an operator writes about a word of the agent.
type substitution struct {
	name   string
	change func(h *honest, w *word, s *writing)
	// the words that it is for; nil for all
	of func(w *word) bool
}

func isSecond(w *word) bool  { return w.second }
func isOlder(w *word) bool   { return w.Version() == 1 }
func isCurrent(w *word) bool { return w.Version() == 2 }
func isGiven(w *word) bool   { return w.delegation != "" }

// forgedStatement is a JWS of a statement by a key that is not the agent's, under any header and
// claims.
func forgedStatement(w *word, key *jose.PrivateKey, header, claims object) string {
	h := object{"alg": jose.EdDSA, "typ": statement.Type, "kid": w.KeyID}
	c := object{
		"iss": w.Issuer, "aud": w.Audience, "iat": w.IssuedAt, "jti": w.ID, "action_hash": w.ActionHash,
	}
	for name, value := range map[string]string{"log": w.Log, "delegation": w.Delegation, "sid": w.Session} {
		if value != "" {
			c[name] = value
		}
	}
	if w.Session != "" {
		c["seq"] = w.Seq
	}
	return forgedJWS(key, withAll(h, header), withAll(c, claims))
}

// substitutions are one for each part that is signed, and each thing that an operator has to put in
// its place.
func substitutions() []substitution {
	all := []substitution{
		// of the record
		{"another agent", func(_ *honest, _ *word, s *writing) { s.agent = "other" }, nil},
		{"another agent, whose keys these are", func(_ *honest, _ *word, s *writing) {
			s.agent = "other"
			for i := range s.enrolled {
				s.enrolled[i].agent = "other"
			}
		}, nil},
		{"another company", func(_ *honest, _ *word, s *writing) { s.company = "globex" }, nil},
		{"another type of action", func(_ *honest, _ *word, s *writing) { s.action = "refund" }, nil},
		{"another payload", func(_ *honest, _ *word, s *writing) { s.payload = `{"amount":1000000}` }, nil},
		{"a member more in the payload", func(_ *honest, _ *word, s *writing) { s.payload = strings.Replace(s.payload, "{", `{"to":"me",`, 1) }, nil},
		{"a payload of another type", func(_ *honest, _ *word, s *writing) { s.payload = `[` + s.payload + `]` }, nil},
		{"no statement", func(_ *honest, _ *word, s *writing) { s.statement, s.enrolled = "", nil }, nil},
		{"recorded a month later", func(_ *honest, _ *word, s *writing) { s.at = s.at.Add(statement.MaxAge + 6*time.Minute) }, nil},
		{"recorded before it was signed", func(_ *honest, _ *word, s *writing) { s.at = s.at.Add(-63 * time.Second) }, nil},
		{"recorded before the agent had a key", func(_ *honest, _ *word, s *writing) { s.at = s.enrolled[0].at.Add(-time.Millisecond) }, nil},

		// of its delegation
		{"a delegation put beside", func(_ *honest, _ *word, s *writing) { s.delegation = given(honestOwner, honestNames) }, func(w *word) bool { return !isGiven(w) }},
		{"the delegation taken away", func(_ *honest, _ *word, s *writing) { s.delegation = "" }, isGiven},
		{"a delegation of another ID", func(_ *honest, _ *word, s *writing) { s.delegation = strings.Replace(s.delegation, "d-1", "d-2", 1) }, isGiven},

		// of the log
		{"another log of the same name", func(_ *honest, _ *word, s *writing) { s.logs = 2 }, isCurrent},

		// of the statement
		{"no signature", func(_ *honest, w *word, s *writing) { s.statement = w.Signed() + "." + strings.Repeat("A", 86) }, nil},
		{"a signature of another statement", func(h *honest, w *word, s *writing) {
			other := h.run[0].Compact
			s.statement = w.Signed() + other[strings.LastIndexByte(other, '.'):]
		}, nil},
		{"another statement of the agent", func(h *honest, _ *word, s *writing) { s.statement = h.run[1].Compact }, nil},
		{"alg none", func(h *honest, w *word, s *writing) {
			s.statement = forgedStatement(w, h.impostor, object{"alg": "none"}, nil)
		}, nil},
		{"signed by the operator", func(h *honest, w *word, s *writing) { s.statement = forgedStatement(w, h.impostor, nil, nil) }, nil},
		{"signed by another agent of the company", func(h *honest, w *word, s *writing) { s.statement = forgedStatement(w, h.other, nil, nil) }, nil},
		{"signed by the operator for another payload", func(h *honest, w *word, s *writing) {
			s.payload = `{"amount":1000000}`
			// it is JSON
			hash, _ := statement.HashAction(s.action, s.agent, s.company, []byte(s.payload))
			s.statement = forgedStatement(w, h.impostor, nil, object{"action_hash": hash})
		}, nil},
		{"signed by the operator, with his key in the header", func(h *honest, w *word, s *writing) {
			s.statement = forgedStatement(w, h.impostor, object{"jwk": json.RawMessage(h.impostor.Key().JWK())}, nil)
		}, nil},
	}
	all = append(all, delegationSubstitutions()...)
	all = append(all, claimSubstitutions()...)
	return append(all, controlSubstitutions()...)
}

// delegationSubstitutions exchange what a delegation says, under its ID.
func delegationSubstitutions() (all []substitution) {
	for name, info := range map[string]string{
		"of another subject": given(localDomain.CompanyID("globex"), honestNames), "with an actor more": given(honestOwner, localDomain.AgentID(honestCompany, "other"), honestNames),
		"given to another agent": given(honestOwner, localDomain.AgentID(honestCompany, "other")), "of the company alone": given(honestOwner),
		"without act":        strings.Replace(given(honestOwner, honestNames), `{"sub":"`+honestNames+`"}`, "null", 1),
		"with another chain": strings.Replace(given(honestOwner, honestNames), `["`+honestOwner+`",`, `["`+localDomain.CompanyID("globex")+`",`, 1),
		"with another act":   strings.Replace(given(honestOwner, honestNames), `{"sub":"`+honestNames+`"}`, `{"sub":"`+honestOwner+`"}`, 1),
		"of a person":        given("https://idp.example#mallory", honestNames),
	} {
		all = append(all, substitution{"a delegation " + name + ", under its ID", func(_ *honest, _ *word, s *writing) { s.delegation = info },
			func(w *word) bool { return isGiven(w) && isCurrent(w) }})
	}
	return all
}

// claimSubstitutions are claims that the operator puts into the statement: the signature is no more
// of them, or is his.
func claimSubstitutions() (all []substitution) {
	zero := strings.Repeat("00", 32)
	for name, claims := range map[string]object{
		"iss": {"iss": localDomain.AgentID(honestCompany, "other")}, "aud": {"aud": localDomain.CompanyID("globex")}, "log": {"log": honestOrigin[:len(honestOrigin)-1] + "0"},
		"iat": {"iat": 0}, "action_hash": {"action_hash": zero}, "delegation": {"delegation": zero}, "sid": {"sid": "run", "seq": 0}, "seq": {"sid": "run", "seq": 9, "prev": zero},
		"prev": {"sid": "run", "seq": 1, "prev": zero}, "refused": {"sid": "run", "seq": 2, "prev": zero, "refused": []object{{"seq": 1, "hash": zero, "code": "A"}}},
		"continues": {"sid": "run", "seq": 0, "continues": object{"sid": "before", "kid": strings.Repeat("A", 43), "hash": zero}}, "end": {"sid": "run", "seq": 0, "end": true},
		"jti": {"jti": "another"},
	} {
		all = append(all, substitution{"another " + name + ", with the agent's signature", func(h *honest, w *word, s *writing) {
			forged := forgedStatement(w, h.impostor, nil, claims)
			s.statement = forged[:strings.LastIndexByte(forged, '.')] + w.Compact[strings.LastIndexByte(w.Compact, '.'):]
		}, nil})
	}
	return all
}

// controlSubstitutions are control records of keys that the operator rewrites and signs again.
func controlSubstitutions() []substitution {
	last := func(s *writing) *keyEnrolment { return &s.enrolled[len(s.enrolled)-1] }
	details := func(e *keyEnrolment, more map[string]any) {
		e.details = maps.Clone(e.details)
		maps.Copy(e.details, more)
	}
	forger := func(h *honest) map[string]any {
		return map[string]any{"jwk": json.RawMessage(h.impostor.Key().JWK())}
	}
	const form = "2006-01-02T15:04:05.000Z"
	all := []substitution{
		{"the operator's key under the agent's thumbprint", func(h *honest, w *word, s *writing) {
			details(last(s), forger(h))
			s.statement = forgedStatement(w, h.impostor, nil, nil)
		}, nil},
		{"the operator's key in the place of the agent's", func(h *honest, w *word, s *writing) {
			last(s).key = h.impostor.Key()
			s.statement = forgedStatement(w, h.impostor, object{"kid": h.impostor.Key().Thumbprint}, nil)
		}, nil},
		{"the operator's key, enrolled by an admin", func(h *honest, w *word, s *writing) {
			s.enrolled = []keyEnrolment{{agent: honestAgent, key: h.impostor.Key(), at: s.at.Add(-time.Minute)}}
			s.statement = forgedStatement(w, h.impostor, object{"kid": h.impostor.Key().Thumbprint}, nil)
		}, nil},
		{"the operator's key beside the agent's", func(h *honest, w *word, s *writing) {
			s.enrolled = append(s.enrolled, keyEnrolment{agent: honestAgent, key: h.impostor.Key(), at: s.at.Add(-time.Minute)})
			s.statement = forgedStatement(w, h.impostor, object{"kid": h.impostor.Key().Thumbprint}, nil)
		}, nil},
		{"the agent's key enrolled twice, once as the operator's", func(h *honest, w *word, s *writing) {
			again := *last(s)
			again.details, again.at = forger(h), s.at.Add(-time.Minute)
			s.enrolled = append(s.enrolled, again)
			s.statement = forgedStatement(w, h.impostor, nil, nil)
		}, nil},
		{"the key of another agent", func(_ *honest, _ *word, s *writing) { last(s).agent = "other" }, nil},
		{"enrolled after the record", func(_ *honest, _ *word, s *writing) { last(s).at = s.at.Add(time.Second) }, nil},
		{"expired before the record", func(_ *honest, _ *word, s *writing) {
			details(last(s), map[string]any{"expiresAt": s.at.Add(-6 * time.Minute).Format(form)})
		}, nil},
		{"revoked before the record", func(_ *honest, w *word, s *writing) {
			s.revoked = []keyRevocation{{agent: honestAgent, thumbprint: w.KeyID, at: s.at.Add(-6 * time.Second)}}
		}, nil},
		{"revoked of another agent", func(_ *honest, w *word, s *writing) {
			s.revoked = []keyRevocation{{agent: "other", thumbprint: w.KeyID, at: s.at.Add(time.Second)}}
		}, nil},
		{"a revocation whose since is no time", func(_ *honest, w *word, s *writing) {
			s.revoked = []keyRevocation{{agent: honestAgent, thumbprint: w.KeyID, at: s.at.Add(time.Second), details: map[string]any{"since": "yesterday"}}}
		}, nil},
		{"no control record of the key", func(_ *honest, _ *word, s *writing) { last(s).omitted = true }, isSecond},
		{"no control record at all", func(_ *honest, _ *word, s *writing) {
			s.edit = func(f *evidence.File) { f.AgentKey = &evidence.AgentKey{} }
		}, nil},
		{"without agentKey", func(_ *honest, _ *word, s *writing) { s.edit = func(f *evidence.File) { f.AgentKey = nil } }, nil},
		{"a control record of before it was signed anew", func(h *honest, w *word, s *writing) {
			s.edit = func(f *evidence.File) { // the record is changed, the proof is of what it was
				r := &f.AgentKey.Entries[0].Record
				r.Payload = []byte(strings.Replace(string(r.Payload), honestAgent, "bat", 1))
			}
		}, nil},
		{"a key that may not make this version", func(_ *honest, _ *word, s *writing) { details(last(s), map[string]any{"statementVersion": 2}) }, isOlder},
		{"a version of statements that there is not", func(_ *honest, _ *word, s *writing) { details(last(s), map[string]any{"statementVersion": 3}) }, nil},
		{"a version of statements as a text", func(_ *honest, _ *word, s *writing) { details(last(s), map[string]any{"statementVersion": "1"}) }, nil},

		// of the endorsement
		{"no endorsement", func(_ *honest, _ *word, s *writing) { details(last(s), map[string]any{"endorsement": nil}) }, isSecond},
		{"the endorsement without the key that signed it", func(_ *honest, _ *word, s *writing) { s.enrolled = s.enrolled[1:] }, isSecond},
		{"the endorsement of another key", func(h *honest, w *word, s *writing) {
			last(s).key = h.impostor.Key()
			s.statement = forgedStatement(w, h.impostor, object{"kid": h.impostor.Key().Thumbprint}, nil)
		}, isSecond},
		{"the key enrolled long after its endorsement", func(_ *honest, _ *word, s *writing) {
			last(s).at = last(s).at.Add(5 * time.Minute)
			s.at = s.at.Add(10 * time.Minute)
		}, isSecond},
		{"the key enrolled before its endorsement", func(_ *honest, _ *word, s *writing) { last(s).at = last(s).at.Add(-62 * time.Second) }, isSecond},
		{"endorsed by a key that had expired", func(h *honest, _ *word, s *writing) {
			details(&s.enrolled[0], map[string]any{"expiresAt": h.enrolledSince.Add(-time.Second).Format(form)})
		}, isSecond},
		{"endorsed by a key that was revoked", func(h *honest, _ *word, s *writing) {
			s.revoked = []keyRevocation{{agent: honestAgent, thumbprint: h.first.Key().Thumbprint, at: h.enrolledSince.Add(-time.Minute)}}
		}, isSecond},
		{"endorsed by a key that was enrolled later", func(h *honest, _ *word, s *writing) { s.enrolled[0].at = h.enrolledSince.Add(time.Second) }, isSecond},
		{"endorsed by a key that is younger than the endorsement", func(h *honest, _ *word, s *writing) {
			s.enrolled[0].at = h.enrolledSince.Add(62 * time.Second)
			s.enrolled[1].at = h.enrolledSince.Add(63 * time.Second)
			s.at = s.at.Add(5 * time.Minute)
		}, isSecond},
		{"endorsed by a key of another agent", func(_ *honest, _ *word, s *writing) { s.enrolled[0].agent = "other" }, isSecond},
	}
	for name, claims := range map[string]object{"iat": {"iat": 0}, "iss": {"iss": localDomain.AgentID(honestCompany, "other")}, "aud": {"aud": localDomain.CompanyID("globex")}} {
		all = append(all, substitution{"an endorsement with another " + name, func(h *honest, _ *word, s *writing) {
			c := object{"iss": honestNames, "aud": honestOwner, "iat": h.enrolledSince.Unix(), "jkt": h.second.Key().Thumbprint}
			forged := forgedJWS(h.impostor, object{"alg": jose.EdDSA, "typ": statement.EndorsementType, "kid": h.first.Key().Thumbprint}, withAll(c, claims))
			details(last(s), map[string]any{"endorsement": forged[:strings.LastIndexByte(forged, '.')] + h.endorsement[strings.LastIndexByte(h.endorsement, '.'):]})
		}, isSecond})
	}
	return append(all, substitution{"an endorsement of the operator's key that he signed in the agent's name", func(h *honest, w *word, s *writing) {
		c := object{"iss": honestNames, "aud": honestOwner, "iat": s.at.Unix() - 61, "jkt": h.impostor.Key().Thumbprint}
		forged := forgedJWS(h.impostor, object{"alg": jose.EdDSA, "typ": statement.EndorsementType, "kid": h.first.Key().Thumbprint}, c)
		s.enrolled = append(s.enrolled[:1], keyEnrolment{agent: honestAgent, key: h.impostor.Key(), at: s.at.Add(-time.Minute), details: map[string]any{"endorsement": forged}})
		s.statement = forgedStatement(w, h.impostor, object{"kid": h.impostor.Key().Thumbprint}, nil)
	}, nil})
}

// records are files about one action.
func (h *honest) records() (list []operatorsFile) {
	pin := h.first.Key().Thumbprint
	for _, of := range sortedKeys(h.words) {
		w := h.words[of]
		for _, sub := range substitutions() {
			if sub.of != nil && !sub.of(w) {
				continue
			}
			s := h.writing(w)
			sub.change(h, w, s)
			list = append(list, operatorsFile{name: of + ": " + sub.name, file: s.file(), pin: pin, against: ownKey})
		}
	}
	return append(list, h.silences()...)
}

func sortedKeys(words map[string]*word) []string { return slices.Sorted(maps.Keys(words)) }

// silences are files of what the agent's key has signed, of which a checker must say something.
func (h *honest) silences() (list []operatorsFile) {
	add := func(name string, w *word, message string, change func(*writing)) {
		s := h.writing(w)
		change(s)
		list = append(list, operatorsFile{name: name, file: s.file(), pin: h.first.Key().Thumbprint, against: silence, message: []string{message}})
	}
	older, delegated, second := h.words["first, older"], h.words["first, older, delegated"], h.words["second"]
	unnamed, idOnly := "does not say which service it was made for", "covers the ID of the delegation alone, not what the delegation said"
	add("older, at another service of the same names", older, unnamed, func(s *writing) { s.logs = 2 })
	add("older, at its own service", older, unnamed, func(*writing) {})
	for name, info := range map[string]string{"another subject": given(localDomain.CompanyID("globex"), honestNames), "an actor more": given(honestOwner, localDomain.AgentID(honestCompany, "other"), honestNames)} {
		add("older, its delegation exchanged for one of "+name, delegated, idOnly, func(s *writing) { s.delegation = info })
	}
	stolen := func(w *word, since time.Time, reason any) func(*writing) {
		return func(s *writing) {
			s.revoked = []keyRevocation{{agent: honestAgent, thumbprint: w.KeyID, at: s.at.Add(time.Hour),
				details: map[string]any{"since": chain.FormatTime(since), "reason": reason}}}
		}
	}
	for name, w := range map[string]*word{"older": older, "current": second} {
		since := w.at.Add(-time.Minute)
		message := "the key was in other hands since " + chain.FormatTime(since) + ", says its revocation"
		add("signed after the key was stolen, "+name, w, message+" (stolen)", stolen(w, since, "stolen"))
		add("signed after the key was stolen, without a reason, "+name, w, message, stolen(w, since, nil))
		add("signed when the key was stolen, "+name, w, "the key was in other hands since "+chain.FormatTime(w.at), stolen(w, w.at, "stolen"))
	}
	add("an older delegation given to another agent", delegated, "is of the agent "+honestAgent+", and its delegation was given to "+localDomain.AgentID(honestCompany, "other"),
		func(s *writing) { s.delegation = given(honestOwner, localDomain.AgentID(honestCompany, "other")) })
	add("a session that goes on from another one", h.words["second, in a session"], "goes on from the session before of the key "+h.first.Key().Thumbprint, func(*writing) {})
	for _, w := range []*word{second, h.words["first"]} {
		add(fmt.Sprint("made for this log, by ", w.KeyID), w, "its statement is by "+honestNames+", for "+honestOwner+" and its log "+honestOrigin, func(*writing) {})
	}
	return list
}
