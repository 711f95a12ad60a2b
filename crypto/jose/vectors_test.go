package jose_test

import (
	"context"
	"crypto"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"testing"

	"github.com/c2sp/wycheproof"
	josev4 "github.com/go-jose/go-jose/v4"

	"attestd/crypto/jose"
	"attestd/internal/must"
)

const maxSize = 16 << 10

// RFC 7515 A.3: an ES256 token verifies, and with one byte changed does not.
func TestRFC7515A3(t *testing.T) {
	t.Parallel()
	const compact = "eyJhbGciOiJFUzI1NiJ9." +
		"eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ." +
		"DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
	token := parse(t, compact)
	if want := "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}"; string(token.Payload) != want {
		t.Errorf("payload %q", token.Payload)
	}
	key := parseKey(t, rfcP256)
	must.OK(t, key.Verify(token))
	for i := range token.Signature {
		changed := token
		changed.Signature = append([]byte(nil), token.Signature...)
		changed.Signature[i] ^= 1
		if key.Verify(changed) != jose.ErrSignature {
			t.Fatalf("byte %d of the signature does not count", i)
		}
	}
	token.Signed = "e" + token.Signed[1:len(token.Signed)-1] + "R"
	if key.Verify(token) != jose.ErrSignature {
		t.Error("the payload does not count")
	}
}

// RFC 7515 A.4 signs with P-521, which is no key of an agent's.
func TestRFC7515A4(t *testing.T) {
	t.Parallel()
	_, err := jose.ParseKey([]byte(`{"kty":"EC","crv":"P-521",` +
		`"x":"AekpBQ8ST8a8VcfVOTNl353vSrDCLLJXmPk06wTjxrrjcBpXp5EOnYG_NjFZ6OvLFV1jSfS9tsz4qUxcWceqwQGk",` +
		`"y":"ADSmRA43Z1DSNx_RvcLI87cdL07l6jQyyBXMoxVg_l2Th-x3S1WDhjDly79ajL4Kkd0AZMaZmh9ubmf63e3kyMj2"}`))
	if err == nil {
		t.Error("a key of P-521 is accepted")
	}
}

// RFC 7517 A.1 and A.2: its EC key, once for encryption and once private.
func TestRFC7517(t *testing.T) {
	t.Parallel()
	const point = `{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",` +
		`"y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}`
	if _, err := jose.ParseKey([]byte(with(point, `"use":"enc","kid":"1"`))); err == nil {
		t.Error("a key for encryption is accepted")
	}
	k := parseKey(t, with(point, `"use":"sig","kid":"1"`))
	p, err := jose.ParsePrivateKey([]byte(with(point, `"d":"870MB6gfuTJ4HtUnUvYMyJpr5eUZNP4Bk43bVdj3eAE"`)))
	must.OK(t, err)
	if p.Key().Thumbprint != k.Thumbprint {
		t.Error("the private key has another thumbprint")
	}
}

// RFC 7638 §3.1 has an RSA key: its thumbprint comes out as published, and it is no key of an
// agent's.
func TestRFC7638(t *testing.T) {
	t.Parallel()
	const jwk = `{"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZC` +
		`iFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpb` +
		`ISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw","e":"AQAB","alg":"RS256","kid":"2011-04-29"}`
	var theirs josev4.JSONWebKey
	must.OK(t, json.Unmarshal([]byte(jwk), &theirs))
	sum, err := theirs.Thumbprint(crypto.SHA256)
	must.OK(t, err)
	if encode(sum) != "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs" {
		t.Errorf("thumbprint %s", encode(sum))
	}
	if _, err := jose.ParseKey([]byte(jwk)); err == nil {
		t.Error("an RSA key is accepted")
	}
}

// RFC 8037 A.1 to A.5: the private key, the thumbprint, the very signature, and its check.
func TestRFC8037(t *testing.T) {
	t.Parallel()
	const compact = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc." +
		"hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
	p := privateKey(t, jose.EdDSA)
	if p.Key().Thumbprint != "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k" {
		t.Errorf("thumbprint %s", p.Key().Thumbprint)
	}
	token := parse(t, compact)
	signature, err := p.Sign(context.Background(), token.Signed)
	must.OK(t, err)
	if token.Signed+"."+encode(signature) != compact {
		t.Error("the signature is another one")
	}
	must.OK(t, parseKey(t, rfcEd25519).Verify(token))
}

// Wycheproof's signatures of Ed25519 and of P-256 with R and S, good and forged.
func TestWycheproof(t *testing.T) {
	t.Parallel()
	for file, algorithm := range map[string]string{
		"ed25519_test.json":                      jose.EdDSA,
		"ecdsa_secp256r1_sha256_p1363_test.json": jose.ES256,
	} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			data, err := fs.ReadFile(wycheproof.TestVectors, file)
			must.OK(t, err)
			var suite struct {
				NumberOfTests int
				TestGroups    []struct {
					PublicKey    struct{ Uncompressed, PK string }
					PublicKeyJwk json.RawMessage
					Tests        []struct {
						TcID                      int
						Comment, Msg, Sig, Result string
					}
				}
			}
			must.OK(t, json.Unmarshal(data, &suite))
			ran := map[string]int{}
			for _, group := range suite.TestGroups {
				var key *jose.Key
				if algorithm == jose.EdDSA {
					key = parseKey(t, `{"kty":"OKP","crv":"Ed25519","x":"`+encode(unhex(t, group.PublicKey.PK))+`"}`)
				} else {
					point := unhex(t, group.PublicKey.Uncompressed)
					key = parseKey(t, `{"kty":"EC","crv":"P-256","x":"`+encode(point[1:33])+`","y":"`+encode(point[33:])+`"}`)
				}
				for _, test := range group.Tests {
					ran[test.Result]++
					err := key.Verify(jose.Token{
						Header: jose.Header{Algorithm: algorithm}, Signed: string(unhex(t, test.Msg)), Signature: unhex(t, test.Sig),
					})
					if (err == nil) != (test.Result == "valid") {
						t.Errorf("%d (%s): %v, Wycheproof says %s", test.TcID, test.Comment, err, test.Result)
					}
				}
			}
			if ran["valid"]+ran["invalid"] != suite.NumberOfTests || ran["valid"] == 0 || ran["invalid"] == 0 {
				t.Errorf("ran %v of %d tests", ran, suite.NumberOfTests)
			}
		})
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	must.OK(t, err)
	return b
}

func undo(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	must.OK(t, err)
	return b
}
