package evidence

import (
	"crypto/ed25519"
	"fmt"
	"slices"

	"attestd/chain"
	"attestd/crypto/jcs"
	"attestd/crypto/keyring"
	"attestd/crypto/keys"
	"attestd/crypto/strictjson"
	"attestd/internal/lazyregexp"
)

var (
	companyForm = lazyregexp.New(`^[A-Za-z0-9._-]{1,128}$`)
	logIDForm   = lazyregexp.New(`^[0-9a-f]{32}$`)
	kidForm     = lazyregexp.New(`^[0-9a-f]{16}$`)
	uuidForm    = lazyregexp.New(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
)

// read parses a file and checks its format only.
func (c *checker) read(src []byte) (*File, error) {
	if len(src) > MaxSize {
		return nil, fmt.Errorf("the file is longer than %d bytes", MaxSize)
	}
	if err := c.sound(src); err != nil {
		return nil, err
	}
	r, f := new(form), new(File)
	m := value{r, "the file", src}.object(
		[]string{"format", "companyId", "log", "record", "hexProof", "tlogProof", "logs", "keys", "witnesses", "notProven"},
		"delegation", "agentKey", "passport", "status", "authority")
	for name, v := range m {
		v.name = name
		m[name] = v
	}
	if m["format"].text() != Format {
		r.refuse("format is not %q", Format)
	}
	f.CompanyID = m["companyId"].company()
	f.Log = m["log"].logName()
	f.Record = m["record"].record()
	f.HexProof = m["hexProof"].hexProof()
	f.Proof = m["tlogProof"].text()
	f.readKeys(m["keys"])
	for _, v := range m["logs"].list(2) {
		f.Logs = append(f.Logs, v.log(f))
	}
	for _, v := range m["witnesses"].list(maxCosign) {
		f.Witnesses = append(f.Witnesses, v.text())
	}
	f.Delegation, f.Status = m["delegation"].src, m["status"].src
	f.AgentKey = m["agentKey"].agentKey()
	if f.AgentKey != nil && !isStated(f.Record.Payload) {
		r.refuse("agentKey is there, and the record has no statement")
	}
	f.Passport, f.Authority = m["passport"].passport(), m["authority"].authority()
	if f.Status != nil {
		m["status"].status()
	}
	for _, v := range m["notProven"].list(maxEntries) {
		f.NotProven = append(f.NotProven, v.text())
	}
	return f, r.err
}

// sound checks that a text is within the bounds of a file and has an RFC 8785 form. It overwrites
// c.form, and grows it to the length of the text.
func (c *checker) sound(src []byte) (err error) {
	if err := Bounded(src); err != nil {
		return err
	}
	c.form, err = jcs.Append(slices.Grow(c.form[:0], len(src)), src, maxDepth)
	return err
}

func (v value) company() string {
	s := v.like(companyForm, "1 to 128 of A-Z, a-z, 0-9, ., _ and -")
	if s == "." || s == ".." {
		v.form.refuse("%s is %q", v.name, s)
	}
	return s
}

func (v value) logName() string {
	s := v.text()
	if s != Actions && s != Control {
		v.form.refuse("%s is neither actions nor control", v.name)
	}
	return s
}

func (v value) timestamp() string {
	s := v.text()
	if !chain.IsTimestamp(s) {
		v.form.refuse("%s is not a timestamp", v.name)
	}
	return s
}

// record parses a record. It leaves the content of payload and delegation to the check of the
// record.
func (v value) record() (r chain.Record) {
	m := v.object([]string{"index", "timestamp", "payload", "hash", "signature"}, "delegation", "pruned")
	r.Index, r.Timestamp = m["index"].number(), m["timestamp"].timestamp()
	r.Payload, r.Delegation = m["payload"].src, m["delegation"].src
	if pruned := m["pruned"].src; pruned != nil {
		if string(pruned) != "true" || string(r.Payload) != "null" {
			v.form.refuse("%s has pruned, which is true beside a payload of null alone", v.name)
		}
		r.Payload = nil
	}
	m["hash"].hex(r.Hash[:])
	copy(r.Signature[:], m["signature"].base64url(ed25519.SignatureSize))
	return r
}

func (v value) hexProof() (p HexProof) {
	m := v.object([]string{"proof", "root", "size"})
	for _, v := range m["proof"].list(maxSteps) {
		m := v.object([]string{"sibling", "position"})
		step := chain.Step{Left: m["position"].text() == "left"}
		if !step.Left && m["position"].text() != "right" {
			v.form.refuse("%s is neither left nor right", m["position"].name)
		}
		m["sibling"].hex(step.Sibling[:])
		p.Steps = append(p.Steps, step)
	}
	m["root"].hex(p.Root[:])
	p.Size = m["size"].number()
	return p
}

// readKeys parses the keys in their published form.
func (f *File) readKeys(v value) {
	list := v.list(maxKeys)
	if len(list) == 0 {
		v.form.refuse("%s is empty", v.name)
	}
	for _, v := range list {
		m := v.object([]string{"kid", "fingerprint", "jwk"})
		j := m["jwk"].object([]string{"kty", "crv", "x", "kid", "alg", "use"})
		p := keys.Public{
			Key: j["x"].base64url(ed25519.PublicKeySize), KID: m["kid"].like(kidForm, "a kid"), Fingerprint: m["fingerprint"].text(),
			JWK: keys.JWK{Kty: j["kty"].text(), Crv: j["crv"].text(), X: j["x"].text(), Kid: j["kid"].text(), Alg: j["alg"].text(), Use: j["use"].text()},
		}
		f.published = append(f.published, p)
		f.Keys = append(f.Keys, p.Key)
	}
}

// log parses a log.
func (v value) log(f *File) Log {
	return f.readLog(v.object([]string{"log", "logId", "origin", "keys"}))
}

// readLog parses the members of a log. The check of the keys compares them with those of the file.
func (f *File) readLog(m map[string]value) Log {
	l := Log{Name: m["log"].logName(), ID: m["logId"].like(logIDForm, "32 lower-case hex digits"), Origin: m["origin"].text()}
	list := m["keys"].list(maxKeys)
	first := len(f.Keys) - len(list)
	for i, v := range list {
		m := v.object([]string{"kid", "fromIndex"}, "rotation")
		k := keyring.Key{Generation: int64(first + i), From: m["fromIndex"].number()}
		kid := m["kid"].like(kidForm, "a kid")
		if at := first + i; at >= 0 && f.published[at].KID == kid {
			k.Public = f.Keys[at]
		}
		if m["rotation"].src != nil {
			r := m["rotation"].object([]string{"statement", "oldSignature", "newSignature"})
			k.Rotation = &keyring.Rotation{
				Statement:    r["statement"].text(),
				OldSignature: r["oldSignature"].base64url(ed25519.SignatureSize),
				NewSignature: r["newSignature"].base64url(ed25519.SignatureSize),
			}
		}
		l.Keys = append(l.Keys, k)
	}
	return l
}

func (v value) entries() (list []Entry) {
	for _, v := range v.list(maxEntries) {
		m := v.object([]string{"record", "tlogProof"})
		list = append(list, Entry{m["record"].record(), m["tlogProof"].text()})
	}
	return list
}

func (v value) passport() *Passport {
	if v.src == nil {
		return nil
	}
	m := v.object([]string{"jti", "records"})
	return &Passport{m["jti"].like(uuidForm, "a UUID"), m["records"].entries()}
}

func (v value) agentKey() *AgentKey {
	if v.src == nil {
		return nil
	}
	return &AgentKey{v.object([]string{"records"})["records"].entries()}
}

// isStated reports whether a payload is an object that has the member statement.
func isStated(payload []byte) (is bool) {
	_ = strictjson.EachMember(payload, maxDepth, func(name, _ []byte) { is = is || string(name) == "statement" })
	return is
}

func (v value) authority() *Authority {
	if v.src == nil {
		return nil
	}
	return &Authority{v.object([]string{"records"})["records"].entries()}
}
