package evidence

import (
	"encoding/base64"
	"slices"
	"strconv"

	"attestd/chain"
	"attestd/crypto/jcs"
	"attestd/crypto/keys"
)

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

func (m *members) entries(list []Entry) {
	m.list("records", func(each func(func(*members))) {
		for i := range list {
			each(func(m *members) {
				m.raw("record", list[i].Record.AppendJSON(nil))
				m.text("tlogProof", list[i].Proof)
			})
		}
	})
}
