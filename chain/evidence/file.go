package evidence

import (
	"crypto/ed25519"
	"encoding/base64"
	"slices"
	"strconv"

	"attestd/chain"
	"attestd/crypto/jcs"
	"attestd/crypto/keyring"
	"attestd/crypto/keys"
)

// Format is the first member of every file.
const Format = "attestd-evidence/v1"

// Names of the logs.
const (
	Actions = "actions"
	Control = "control"
)

// File is the content of an evidence file.
type File struct {
	CompanyID  string
	Log        string // of the record
	Record     chain.Record
	HexProof   HexProof
	Proof      string // tlog-proof of the record
	Logs       []Log
	Keys       []ed25519.PublicKey // from the first to the signer of the checkpoints
	Witnesses  []string            // vkeys
	Delegation []byte              // nil if the record has none
	AgentKey   *AgentKey           // nil if the record has no statement
	Passport   *Passport
	Status     []byte // of the passport: the response of GET /v1/ocsp/{jti}
	Authority  *Authority
	Policies   *Policies  // nil if the record has no decision, or they are left out
	Passports  *Passports // nil if no decision names one
	Approvals  *Approvals // nil if the record was allowed without one, or they are left out
	NotProven  []string

	published []keys.Public // Keys in their published form
	bothLogs  bool          // Logs has both logs, as in a report
}

// HexProof leads from the record's hash to the root of the specified tree of a size.
type HexProof struct {
	Steps chain.Proof
	Root  chain.Hash
	Size  int64
}

// Log is one of the company's logs with those of its keys that are in Keys. Only the signed fields
// of a key are used: Generation (its index in Keys), Public, From and Rotation.
type Log struct {
	Name, ID, Origin string
	Keys             []keyring.Key

	set chain.KeySet // of Keys, once it is asked for
}

// Entry is a control record with its inclusion proof.
type Entry struct {
	Record chain.Record
	Proof  string // tlog-proof
}

// Passport is a passport with its control records.
type Passport struct {
	JTI     string
	Entries []Entry
}

// AgentKey has the control records of the key that signed the record's statement, and of the keys
// from which it follows.
type AgentKey struct{ Entries []Entry }

// Authority has the control records about the authority of the record's agent.
type Authority struct{ Entries []Entry }

// Sentences of notProven that files of a session have too.
const (
	notOmitted = "That no other record of the control log bears on this one: what is missing here may stand there."
	notOrdered = "How records of the two logs follow each other but by their times."
	notOnce    = "That no other record has the same statement: the agent signed it once, and a second record of it would look the same."
	notOwnKey  = "That the agent alone holds the key of its statement: whoever enrolled that key may hold it. Only a key that you know from the agent, and name to the checker, shows whose word this is."

	notUnderstood = "That a person who approved something understood it, nor that the page showed it as it was: only that their passkey signed exactly what is here. Only a key that you know from the person, and name to the checker, shows whose passkey it is."
	notUsedAgain  = "That an approval was not used again for the same call: a use that is missing here may stand in the logs."
)

// notProven returns sentences for people about what the file does not prove. They are part of the
// format.
func (f *File) notProven() []string {
	list := []string{
		"That nothing was left out: this file shows one record, not what came before it, after it or beside it.",
		"That what the payload says is true: only that the service was given it, and when by the service's clock.",
		"That the service's clock was right: every time in this file that is not a witness's is the operator's word.",
		"That nobody else had the company's key, nor that a key was not declared compromised after this file was made.",
		"That there is no other history: only witnesses whom you chose, or a checkpoint that you kept, show that. Two appliances of one owner are not independent.",
		"That the root in hexProof is the chain's: compare it with one that you kept.",
	}
	if f.Authority != nil || f.Passport != nil || f.AgentKey != nil || f.Policies != nil || f.Passports != nil || f.Approvals != nil {
		list = append(list, notOmitted)
	}
	switch {
	case f.AgentKey != nil:
		list = append(list, notOrdered, notOnce, notOwnKey)
	case f.Authority != nil:
		list = append(list, "How records of the two logs follow each other but by their times, nor that the agent itself acted: the service knows the credential, not who held it.")
	}
	if f.Approvals != nil {
		list = append(list, notUnderstood, notUsedAgain)
	}
	if f.Status != nil {
		list = append(list, "That the status of the passport is still the same: it is of the moment when it was checked.")
	}
	return list
}

// JSON returns the encoded file. It omits unneeded logs, and keys of logs after the last of Keys,
// and it sets notProven. Payloads are written byte for byte.
func (f *File) JSON() []byte {
	w := writer(make([]byte, 0, 8<<10+len(f.Record.Payload)))
	w.object(func(m *members) {
		m.text("format", Format)
		m.text("companyId", f.CompanyID)
		m.text("log", f.Log)
		m.raw("record", f.Record.AppendJSON(nil))
		m.object("hexProof", f.HexProof.write)
		m.text("tlogProof", f.Proof)
		m.list("logs", f.writeLogs)
		m.list("keys", f.writeKeys)
		m.texts("witnesses", f.Witnesses)
		if f.Record.Delegation != nil {
			m.raw("delegation", f.Record.Delegation)
		}
		if f.AgentKey != nil {
			m.object("agentKey", func(m *members) { m.entries(f.AgentKey.Entries) })
		}
		if p := f.Passport; p != nil {
			m.object("passport", func(m *members) {
				m.text("jti", p.JTI)
				m.entries(p.Entries)
			})
		}
		if f.Status != nil {
			m.raw("status", f.Status)
		}
		if f.Authority != nil {
			m.object("authority", func(m *members) { m.entries(f.Authority.Entries) })
		}
		if f.Policies != nil {
			m.object("policies", func(m *members) { m.entries(f.Policies.Entries) })
		}
		if f.Passports != nil {
			m.object("passports", func(m *members) { m.entries(f.Passports.Entries) })
		}
		if f.Approvals != nil {
			m.object("approvals", f.Approvals.write)
		}
		m.texts("notProven", f.notProven())
	})
	return append(w, '\n')
}

func (p *HexProof) write(m *members) {
	m.list("proof", func(each func(func(*members))) {
		for _, step := range p.Steps {
			each(func(m *members) {
				m.text("sibling", step.Sibling.String())
				m.text("position", position(step))
			})
		}
	})
	m.text("root", p.Root.String())
	m.number("size", p.Size)
}

func position(s chain.Step) string {
	if s.Left {
		return "left"
	}
	return "right"
}

func (f *File) writeLogs(each func(func(*members))) {
	needed := f.neededLogs()
	for _, l := range f.Logs {
		if slices.Contains(needed, l.Name) {
			each(func(m *members) { l.write(m, len(f.Keys)) })
		}
	}
}

func (l *Log) write(m *members, count int) {
	m.text("log", l.Name)
	m.text("logId", l.ID)
	m.text("origin", l.Origin)
	m.list("keys", l.writeKeys(count))
}

// writeKeys writes the log's keys that are among the first count keys of the company.
func (l *Log) writeKeys(count int) func(each func(func(*members))) {
	return func(each func(func(*members))) {
		for _, k := range l.Keys {
			if k.Generation >= int64(count) {
				break
			}
			each(func(m *members) {
				m.text("kid", keys.Describe(k.Public).KID)
				m.number("fromIndex", k.From)
				if r := k.Rotation; r != nil {
					m.object("rotation", func(m *members) {
						m.text("statement", r.Statement)
						m.text("oldSignature", base64.RawURLEncoding.EncodeToString(r.OldSignature))
						m.text("newSignature", base64.RawURLEncoding.EncodeToString(r.NewSignature))
					})
				}
			})
		}
	}
}

func (f *File) writeKeys(each func(func(*members))) {
	for _, k := range f.Keys {
		is := keys.Describe(k)
		each(func(m *members) {
			m.text("kid", is.KID)
			m.text("fingerprint", is.Fingerprint)
			m.object("jwk", func(m *members) {
				for _, p := range [][2]string{
					{"kty", is.JWK.Kty}, {"crv", is.JWK.Crv}, {"x", is.JWK.X}, {"kid", is.JWK.Kid}, {"alg", is.JWK.Alg}, {"use", is.JWK.Use},
				} {
					m.text(p[0], p[1])
				}
			})
		})
	}
}

// writer appends JSON. It does not use encoding/json, which would reformat payloads.
type writer []byte

// members writes the members of one object.
type members struct {
	w     *writer
	wrote bool
}

func (w *writer) object(write func(*members)) {
	*w = append(*w, '{')
	write(&members{w: w})
	*w = append(*w, '}')
}

func (m *members) name(name string) {
	if m.wrote {
		*m.w = append(*m.w, ',')
	}
	m.wrote = true
	*m.w = append(jcs.AppendString(*m.w, name), ':')
}

func (m *members) raw(name string, value []byte) {
	m.name(name)
	*m.w = append(*m.w, value...)
}

func (m *members) text(name, value string) {
	m.name(name)
	*m.w = jcs.AppendString(*m.w, value)
}

func (m *members) number(name string, value int64) {
	m.name(name)
	*m.w = strconv.AppendInt(*m.w, value, 10)
}

func (m *members) object(name string, write func(*members)) {
	m.name(name)
	m.w.object(write)
}

// list writes an array of objects: write calls each once for every object.
func (m *members) list(name string, write func(each func(func(*members)))) {
	m.name(name)
	*m.w = append(*m.w, '[')
	first := true
	write(func(element func(*members)) {
		if !first {
			*m.w = append(*m.w, ',')
		}
		first = false
		m.w.object(element)
	})
	*m.w = append(*m.w, ']')
}

func (m *members) texts(name string, values []string) {
	m.name(name)
	*m.w = append(*m.w, '[')
	for i, v := range values {
		if i > 0 {
			*m.w = append(*m.w, ',')
		}
		*m.w = jcs.AppendString(*m.w, v)
	}
	*m.w = append(*m.w, ']')
}

func (m *members) entries(list []Entry) { m.list("records", writeEntries(list)) }

func writeEntries(list []Entry) func(each func(func(*members))) {
	return func(each func(func(*members))) {
		for i := range list {
			each(func(m *members) {
				m.raw("record", list[i].Record.AppendJSON(nil))
				m.text("tlogProof", list[i].Proof)
			})
		}
	}
}
