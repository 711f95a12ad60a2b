package attack

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/big"
	"strings"
)

// headers returns forgeries of the header: another algorithm, key or type, a member that changes
// what is verified, and keys other than the company's. The signature is valid where that is
// possible.
func (t thief) headers(k kind) (list []forgery) {
	claims := marshal(k.claims)
	add := func(name, token string) { list = append(list, forgery{name, token}) }
	own := func(name string, header object) { add(name, signed(t.own, marshal(header), claims)) }

	algorithms := []any{"none", "None", "NONE", "nOnE", "HS256", "HS384", "HS512", "RS256", "PS256", "ES256", "ES256K",
		"Ed25519", "Ed448", "EDDSA",
		"eddsa", "EdDSA ", "EdDSA\x00", "", nil, 1, true, []any{"EdDSA"}, object{"EdDSA": 1}}
	for _, alg := range algorithms {
		header := with(k.header, "alg", alg)
		own(fmt.Sprintf("alg %q", fmt.Sprint(alg)), header)
		unsigned := encode(marshal(header)) + "." + encode(claims) + "."
		add(fmt.Sprintf("alg %q and no signature", fmt.Sprint(alg)), unsigned)
	}
	own("no alg", without(k.header, "alg"))
	secrets := map[string][]byte{
		"the public key": t.public.Key, "its PEM": []byte(t.public.PEM),
		"its PEM without a line end": []byte(strings.TrimSpace(t.public.PEM)),
		"its JWK's x":                []byte(t.public.JWK.X), "its kid": []byte(t.public.KID), "nothing": nil,
	}
	for name, secret := range secrets {
		text := encode(marshal(with(k.header, "alg", "HS256"))) + "." + encode(claims)
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(text))
		add("HS256 with "+name, text+"."+encode(mac.Sum(nil)))
	}
	add("ES256 with a key of its own", es256(with(k.header, "alg", "ES256"), claims))

	for _, kid := range []any{"", t.otherKID, strings.ToUpper(t.public.KID + "a"), t.public.KID + " ", "0000000000000000",
		"../../../etc/passwd",
		"' OR 1=1 --", "https://127.0.0.1/key", nil, 7, []any{t.public.KID}} {
		own(fmt.Sprintf("kid %q", fmt.Sprint(kid)), with(k.header, "kid", kid))
	}
	own("no kid", without(k.header, "kid"))
	for _, typ := range []any{"", "jwt", "cap+jwt", "at+jwt", "JWT ", "JOSE", "application/JWT", swapped(k.header["typ"]),
		nil, 1, []any{k.header["typ"]}} {
		own(fmt.Sprintf("typ %q", fmt.Sprint(typ)), with(k.header, "typ", typ))
	}
	own("no typ", without(k.header, "typ"))

	jwk := object{"kty": "OKP", "crv": "Ed25519", "x": encode(t.fresh.Public().(ed25519.PublicKey))}
	for name, value := range map[string]any{
		"crit": []any{"exp"}, "b64": false, "jwk": jwk, "jku": "http://127.0.0.1:1/keys", "x5u": "http://127.0.0.1:1/cert",
		"x5c": []any{"AA=="},
	} {
		own(name, with(k.header, name, value))
		own(name+" null", with(k.header, name, nil))
		own(name+" spelt freely", object{"z": raw(`1,"\u00` + fmt.Sprintf("%02x", name[0]) + name[1:] + `":` +
			string(marshal(value)) +
			"," + strings.Trim(string(marshal(k.header)), "{}"))})
		add(name+", with the key that it may name", signed(t.fresh, marshal(with(k.header, name, value)), claims))
	}
	for name, value := range k.header {
		text := strings.TrimSuffix(string(marshal(k.header)), "}")
		again := fmt.Sprintf(`,"%s":%s}`, name, marshal(value))
		add("a header with "+name+" twice", signed(t.own, []byte(text+again), claims))
		add("a header with "+name+" twice, spelt freely",
			signed(t.own, []byte(strings.Replace(text+again, `,"`+name+`"`, fmt.Sprintf(`,"\u%04x%s"`, name[0], name[1:]), 1)),
				claims))
		own("a header whose "+name+" has another case", with(without(k.header, name), strings.ToUpper(name), value))
	}
	for name, signer := range map[string]ed25519.PrivateKey{"another tenant": t.other, "nobody": t.fresh} {
		add("signed by "+name, signed(signer, marshal(k.header), claims))
		add("signed by "+name+" who says so", signed(signer, marshal(with(k.header, "kid", t.otherKID)), claims))
	}
	return list
}

func swapped(typ any) string {
	if typ == "JWT" {
		return "CAP+JWT"
	}
	return "JWT"
}

// es256 signs with a new P-256 key, which the header contains.
func es256(header object, claims []byte) string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // impossible with this reader
	}
	text := encode(marshal(header)) + "." + encode(claims)
	digest := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		panic(err)
	}
	return text + "." + encode(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

// signatures returns a valid header and claims with wrong signatures.
func (t thief) signatures(k kind) (list []forgery) {
	at := strings.LastIndexByte(k.good, '.') + 1
	text := k.good[:at]
	good, err := base64.RawURLEncoding.DecodeString(k.good[at:])
	if err != nil || len(good) != ed25519.SignatureSize {
		panic("a good token with a bad signature")
	}
	add := func(name string, signature []byte) { list = append(list, forgery{name, text + encode(signature)}) }
	for bit := range 8 * len(good) {
		flipped := append([]byte(nil), good...)
		flipped[bit/8] ^= 1 << (bit % 8)
		add(fmt.Sprintf("bit %d of the signature flipped", bit), flipped)
	}
	for _, n := range []int{0, 1, 32, 63} {
		add(fmt.Sprintf("a signature of %d bytes", n), good[:n])
	}
	add("a signature of 65 bytes", append(append([]byte(nil), good...), 0))
	add("a signature of zeros", make([]byte, 64))
	add("a signature twice", append(append([]byte(nil), good...), good...))
	// Ed25519 is malleable if S + L is accepted for S (RFC 8032 §5.1.7).
	order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	reversed := func(b []byte) []byte {
		r := make([]byte, len(b))
		for i := range b {
			r[len(b)-1-i] = b[i]
		}
		return r
	}
	s := new(big.Int).SetBytes(reversed(good[32:]))
	add("S + L for S", append(append([]byte(nil), good[:32]...), reversed(s.Add(s, order).FillBytes(make([]byte, 32)))...))
	// The neutral element as R, with S = 0, is a signature for weak public keys.
	add("the neutral element", append([]byte{1}, make([]byte, 63)...))
	return list
}
