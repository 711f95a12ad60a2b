package attack

import (
	"slices"
	"strings"
	"time"

	"attestd/chain"
	"attestd/chain/evidence/evidencetest"
)

// sessionWriting is what an operator writes about a session.
type sessionWriting struct {
	writing
	kid, sid string
	words    []*word
	change   func(n int, s *writing) // of each record; nil for none
	order    func([]int64) []int64   // of the records in the file
	text     func(string) string     // of the file
}

func (h *honest) session(words []*word) *sessionWriting {
	w := words[len(words)-1]
	return &sessionWriting{writing: *h.writing(w), kid: w.KeyID, sid: w.Session, words: words}
}

func (s *sessionWriting) file() []byte {
	o := evidencetest.NewOperator(s.company, s.logs)
	stored := s.control(o)
	var actions []int64
	for n, w := range s.words {
		r := writing{agent: honestAgent, action: honestAction, payload: w.payload, statement: w.Compact, delegation: w.delegation, at: w.at}
		if s.change != nil {
			s.change(n, &r)
		}
		if at := r.at.Add(-time.Second); at.After(o.Now) || n == 0 {
			o.Now = at
		}
		actions = append(actions, o.Action(r.agent, r.action, r.payload, r.statement, r.delegation))
	}
	if s.order != nil {
		actions = s.order(actions)
	}
	file := string(o.Session(s.agent, s.kid, s.sid, stored, actions))
	if s.text != nil {
		file = s.text(file)
	}
	return []byte(file)
}

// sessions are files of sessions from which something was taken, in which something was put, or
// which are not all of what the agent did.
func (h *honest) sessions() (list []operatorsFile) {
	pin := h.first.Key().Thumbprint
	add := func(name string, s *sessionWriting, against claim, message ...string) {
		list = append(list, operatorsFile{name: "session: " + name, file: s.file(), pin: pin, against: against, message: message})
	}
	recorded := slices.Concat(h.run[:2], h.run[3:]) // without the one that was refused
	for name, whole := range map[string][]*word{"run": recorded, "older": h.older, "next": h.next} {
		for left := 1; left < 1<<len(whole)-1; left++ { // each choice of records that are left out
			var rest []*word
			var out []string
			for i, w := range whole {
				if left>>i&1 == 0 {
					rest = append(rest, w)
				} else {
					out = append(out, string(rune('0'+w.Seq)))
				}
			}
			add(name+" without "+strings.Join(out, ", "), h.session(rest), completeness)
		}
	}
	all := "complete: 0 to 5, sealed"
	add("run with what the service had refused", h.session(h.run), silence, all, "the service recorded number 2, record 2, although it had told the agent that it refused it")
	add("run, whose refusal is named", h.session(recorded), silence, all+", 1 refused", "a session that goes on from this one may exist elsewhere")
	add("next, without the session that it goes on from", h.session(h.next), silence, "complete: 0 to 2, sealed",
		"goes on from the session run of the key "+h.second.Key().Thumbprint+", whose last statement has the hash "+h.run[5].Hash())
	other := func(words []*word, change func(*sessionWriting)) *sessionWriting {
		s := h.session(words)
		change(s)
		return s
	}
	add("older, at another service of the same names", other(h.older, func(s *sessionWriting) { s.logs = 2 }), silence, "does not say which service it was made for")
	add("run, whose key was stolen meanwhile", other(recorded, func(s *sessionWriting) {
		s.revoked = []keyRevocation{{agent: honestAgent, thumbprint: s.kid, at: s.at.Add(time.Hour), details: map[string]any{"since": chain.FormatTime(h.run[4].at), "reason": "stolen"}}}
	}), silence, "the key was in other hands since "+chain.FormatTime(h.run[4].at)+", says its revocation (stolen)")

	each := func(name string, change func(n int, s *writing)) {
		for n := range recorded {
			add(name+" in line "+string(rune('0'+n)), other(recorded, func(s *sessionWriting) {
				s.change = func(at int, r *writing) {
					if at == n {
						change(n, r)
					}
				}
			}), ownKey)
		}
	}
	each("another payload", func(_ int, s *writing) { s.payload = `{"amount":1000000}` })
	each("a delegation", func(_ int, s *writing) { s.delegation = given(honestOwner, honestNames) })
	each("another agent", func(_ int, s *writing) { s.agent = "other" })
	each("no statement", func(_ int, s *writing) { s.statement = "" })
	each("a place of another session", func(n int, s *writing) {
		w := h.next[n%len(h.next)]
		s.payload, s.statement = w.payload, w.Compact
	})
	each("a place that the operator has signed", func(n int, s *writing) {
		w := recorded[n]
		s.statement = forgedStatement(w, h.impostor, nil, object{"seq": w.Seq})
	})
	add("run, made for another log", other(recorded, func(s *sessionWriting) { s.logs = 2 }), ownKey)
	add("run, in another company", other(recorded, func(s *sessionWriting) { s.company = "globex" }), ownKey)
	add("run, of another agent", other(recorded, func(s *sessionWriting) { s.agent = "other" }), ownKey)
	add("run, under another name", other(recorded, func(s *sessionWriting) { s.sid = "nur" }), ownKey)
	add("run, under the key before", other(recorded, func(s *sessionWriting) { s.kid, s.enrolled = pin, h.enrolments(pin) }), ownKey)
	add("run, under the operator's key", other(recorded, func(s *sessionWriting) {
		s.kid = h.impostor.Key().Thumbprint
		s.enrolled = []keyEnrolment{{agent: honestAgent, key: h.impostor.Key(), at: h.enrolledSince}}
	}), ownKey)
	add("run, its key endorsed by nobody", other(recorded, func(s *sessionWriting) { s.enrolled[1].details = nil }), ownKey)
	add("run, its key enrolled afterwards", other(recorded, func(s *sessionWriting) { s.enrolled[1].at = s.at.Add(time.Minute) }), ownKey)
	add("older, by a key that may not make this version", other(h.older, func(s *sessionWriting) { s.enrolled[0].details = nil }), ownKey)
	order := func(name string, change func([]int64) []int64) {
		add("run, "+name, other(recorded, func(s *sessionWriting) { s.order = change }), ownKey)
	}
	order("backwards", func(all []int64) []int64 { slices.Reverse(all); return all })
	order("a record twice", func(all []int64) []int64 { return slices.Insert(all, 2, all[1]) })
	order("the end first", func(all []int64) []int64 { return append(all[len(all)-1:len(all):len(all)], all[:len(all)-1]...) })
	add("run and next in one", other(slices.Concat(recorded, h.next), func(s *sessionWriting) { s.sid = "run" }), ownKey)
	lines := func(name string, change func(lines []string) []string) {
		add("run, "+name, other(recorded, func(s *sessionWriting) {
			s.text = func(text string) string { return strings.Join(change(strings.SplitAfter(text, "\n")), "") }
		}), ownKey)
	}
	lines("a line less than its header says", func(l []string) []string { return slices.Delete(l, 3, 4) })
	lines("a line more than its header says", func(l []string) []string { return slices.Insert(l, 3, l[2]) })
	lines("without its last line", func(l []string) []string { return l[:len(l)-2] })
	return list
}
