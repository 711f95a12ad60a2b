package keys_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"testing"

	"github.com/c2sp/wycheproof"
)

// RFC 8032 section 7.1: the key that a seed gives, and the signature of a message.
func TestRFC8032(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, seed, public, message, signature string }{
		{
			"TEST 1",
			"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
			"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
			"",
			"e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
		},
		{
			"TEST 2",
			"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
			"3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
			"72",
			"92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
		},
		{
			"TEST 3",
			"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
			"fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
			"af82",
			"6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
		},
		{
			"TEST SHA(abc)",
			"833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
			"ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
			"ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
			"dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			key := ed25519.NewKeyFromSeed(unhex(t, test.seed))
			public := key.Public().(ed25519.PublicKey)
			if got := hex.EncodeToString(public); got != test.public {
				t.Errorf("public key %s, want %s", got, test.public)
			}
			message := unhex(t, test.message)
			if got := hex.EncodeToString(ed25519.Sign(key, message)); got != test.signature {
				t.Errorf("signature %s, want %s", got, test.signature)
			}
			if !ed25519.Verify(public, message, unhex(t, test.signature)) {
				t.Error("the published signature is refused")
			}
		})
	}
}

// Wycheproof's Ed25519 signatures, good and forged, against the very call that checks ours.
func TestWycheproof(t *testing.T) {
	t.Parallel()
	data, err := fs.ReadFile(wycheproof.TestVectors, "ed25519_test.json")
	if err != nil {
		t.Fatal(err)
	}
	var suite struct {
		NumberOfTests int `json:"numberOfTests"`
		TestGroups    []struct {
			PublicKey struct {
				PK string `json:"pk"`
			} `json:"publicKey"`
			Tests []struct {
				ID      int    `json:"tcId"`
				Comment string `json:"comment"`
				Msg     string `json:"msg"`
				Sig     string `json:"sig"`
				Result  string `json:"result"`
			} `json:"tests"`
		} `json:"testGroups"`
	}
	if err := json.Unmarshal(data, &suite); err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	for _, group := range suite.TestGroups {
		public := ed25519.PublicKey(unhex(t, group.PublicKey.PK))
		for _, test := range group.Tests {
			ran[test.Result]++
			valid := ed25519.Verify(public, unhex(t, test.Msg), unhex(t, test.Sig))
			if valid != (test.Result == "valid") {
				t.Errorf("%d (%s): Verify says %v, Wycheproof %s", test.ID, test.Comment, valid, test.Result)
			}
		}
	}
	if ran["valid"]+ran["invalid"] != suite.NumberOfTests || ran["valid"] == 0 || ran["invalid"] == 0 {
		t.Errorf("ran %v of %d tests", ran, suite.NumberOfTests)
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
