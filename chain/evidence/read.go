package evidence

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"

	"attestd/chain"
	"attestd/chain/tlog"
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
		"delegation", "agentKey", "passport", "status", "authority", "policies", "passports", "approvals")
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
	f.Passport, f.Authority, f.Policies = m["passport"].passport(), m["authority"].authority(), m["policies"].policies()
	f.Passports, f.Approvals = m["passports"].passports(), m["approvals"].approvals()
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

func (v value) policies() *Policies {
	if v.src == nil {
		return nil
	}
	return &Policies{v.object([]string{"records"})["records"].entries()}
}

// MaxSize is the size of the longest file, in bytes.
const MaxSize = 64 << 20

const (
	maxDepth   = 160 // a payload may nest 128 deep
	maxNumber  = 1<<53 - 1
	maxKeys    = 10_000
	maxSteps   = 60
	maxCosign  = 16
	maxEntries = 10_000
)

// value is a part of a file and its name in errors. Its methods check a format and store the first
// error in form.
type value struct {
	form *form
	name string
	src  []byte // nil if absent
}

// form has the first format error of a file.
type form struct{ err error }

func (f *form) refuse(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

// object checks for an object with all members of must, any of may, and no others.
func (v value) object(must []string, may ...string) map[string]value {
	members := make(map[string]value, len(must)+len(may))
	err := strictjson.EachMember(v.src, maxDepth, func(name, src []byte) {
		if !slices.Contains(must, string(name)) && !slices.Contains(may, string(name)) {
			v.form.refuse("%s has an unknown member %.100q", v.name, name)
			return
		}
		members[string(name)] = value{v.form, v.name + "." + string(name), src}
	})
	if err != nil {
		v.form.refuse("%s is not an object", v.name)
	}
	for _, name := range slices.Concat(must, may) {
		if _, ok := members[name]; !ok {
			members[name] = value{v.form, v.name + "." + name, nil}
			if slices.Contains(must, name) {
				v.form.refuse("%s has no member %q", v.name, name)
			}
		}
	}
	return members
}

// list checks for an array of at most limit elements.
func (v value) list(limit int) (elements []value) {
	count := 0
	err := strictjson.EachElement(v.src, maxDepth, func(src []byte) {
		if count++; count <= limit {
			elements = append(elements, value{v.form, fmt.Sprintf("%s[%d]", v.name, len(elements)), src})
		}
	})
	if err != nil || count > limit {
		v.form.refuse("%s is not an array of at most %d elements", v.name, limit)
		return nil
	}
	return elements
}

func (v value) text() string {
	s, ok := strictjson.AsString(v.src)
	if !ok {
		v.form.refuse("%s is not a string", v.name)
	}
	return s
}

// like checks for a string that matches form.
func (v value) like(form func() *regexp.Regexp, what string) string {
	s := v.text()
	if !form().MatchString(s) {
		v.form.refuse("%s is not %s", v.name, what)
	}
	return s
}

func (v value) number() int64 {
	n, ok := strictjson.AsInteger(v.src)
	if !ok || n > maxNumber {
		v.form.refuse("%s is not a whole number from 0 to 2⁵³-1", v.name)
		return 0
	}
	return n
}

// hex checks for lower-case hex of len(dst) bytes.
func (v value) hex(dst []byte) {
	s := v.text()
	data, err := hex.DecodeString(s)
	if err != nil || len(data) != len(dst) || hex.EncodeToString(data) != s {
		v.form.refuse("%s is not lower-case hex of %d bytes", v.name, len(dst))
		return
	}
	copy(dst, data)
}

// base64url checks for canonical base64url of size bytes without padding.
func (v value) base64url(size int) []byte {
	s := v.text()
	data, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(data) != size || base64.RawURLEncoding.EncodeToString(data) != s {
		v.form.refuse("%s is not base64url of %d bytes", v.name, size)
		return make([]byte, size)
	}
	return data
}

// root checks for a hash in canonical base64.
func (v value) root() tlog.Hash {
	h, ok := tlog.ParseHash(v.text())
	if !ok {
		v.form.refuse("%s is not a hash in base64", v.name)
	}
	return h
}

// maxWeight bounds the memory that a parsed file needs; see weight in the format.
const maxWeight = 9_000_000

// Bounded checks that a JSON text weighs at most maxWeight and nests at most maxDepth deep. Its
// result for invalid JSON is arbitrary, because the parser refuses that later.
func Bounded(src []byte) error {
	weight, depth := 0, 0
	for i := 0; i < len(src); i++ {
		switch src[i] {
		case '{', '[':
			weight, depth = weight+2, depth+1
		case '}', ']':
			depth--
		case ',', ':':
			weight += 4
		case '"':
			weight += 2
			for i++; i < len(src) && src[i] != '"' && weight <= maxWeight; i++ {
				if src[i] == '\\' {
					weight += 4
					i++
				}
			}
		}
		if depth < 0 || depth > maxDepth {
			return fmt.Errorf("it nests deeper than %d", maxDepth)
		}
		if weight > maxWeight {
			return fmt.Errorf("it weighs more than %d", maxWeight)
		}
	}
	return nil
}
