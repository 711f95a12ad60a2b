package service

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"attestd/crypto/assertion"
	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/internal/keysets"
	"attestd/store"
	"attestd/store/storetest"
)

// published is what is at the URL of a client's key set.
type published struct {
	mu    sync.Mutex
	set   string
	hangs bool
	asked int
}

func (p *published) Get(ctx context.Context, _ string) (keysets.Document, error) {
	p.mu.Lock()
	p.asked++
	set, hangs := p.set, p.hangs
	p.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return keysets.Document{}, errors.New("no whole answer in 5s")
	}
	return keysets.Document{Body: []byte(set), Fresh: 10 * time.Minute}, nil
}

func (p *published) become(hangs bool, keys ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hangs, p.set = hangs, `{"keys":[`+strings.Join(keys, ",")+`]}`
}

// A client's fetched keys are followed when they change, whether the new one has a new name, the
// former one's, or none. While they cannot be fetched the former ones count for an hour after they
// were fresh, at no request's cost, and then none does until they can.
func TestFetchedClientKeysAreFollowed(t *testing.T) {
	t.Parallel()
	storetest.NotOnPostgres(t, "a fake clock stands still while a connection is read")
	path := storetest.New(t)
	schema, err := os.ReadFile("../schema.sql")
	fatal(t, err)
	synctest.Test(t, func(t *testing.T) {
		db, err := store.Open(t.Context(), path, string(schema), store.Options{})
		fatal(t, err)
		go db.Run(t.Context(), store.RunOptions{})
		defer db.Close()
		company, _, err := db.Companies.Create(t.Context(), "acme", nil, time.Now())
		fatal(t, err)
		at := &published{}
		sets := keysets.New(at)
		defer sets.Close()
		tokens := &Tokens{Store: db, Sets: sets, CheckURL: func(string) error { return nil }}
		key := func(kid string) (*jose.PrivateKey, string) {
			made, err := jose.GenerateKey(jose.ES256)
			fatal(t, err)
			if kid == "" {
				return made, made.Key().JWK()
			}
			return made, strings.TrimSuffix(made.Key().JWK(), "}") + `,"kid":"` + kid + `"}`
		}
		one, first := key("k1")
		two, second := key("k2")
		three, third := key("k2")
		four, fourth := key("")
		at.become(false, first)
		uri := "https://client.example/jwks"
		admin := store.Caller{Company: company, Role: store.Admin, At: time.Now()}
		client, secret, err := tokens.CreateClient(t.Context(), admin, NewClient{Grant: store.Grant{Role: store.Reader}, JWKSURI: &uri, Most: 10})
		if fatal(t, err); secret != "" {
			t.Error("the client has a secret")
		}
		signIn := func(key *jose.PrivateKey, kid string) error {
			header := map[string]any{"alg": key.Key().Algorithm, "kid": kid}
			if kid == "" {
				delete(header, "kid")
			}
			now := time.Now()
			claims := map[string]any{"iss": client.ID, "sub": client.ID, "aud": "us", "jti": "j", "exp": now.Add(time.Minute).Unix()}
			text := josetest.Forge(t, key, josetest.Marshal(t, header), josetest.Marshal(t, claims))
			by, _, err := tokens.Authenticate(t.Context(), Presented{Assertion: text, Audiences: []string{"us"}}, now)
			if err == nil && by.Client != client.ID {
				t.Errorf("it is %q", by.Client)
			}
			return err
		}
		refused := func(err error, why string) {
			t.Helper()
			if !errors.Is(err, ErrInvalidClient) || !strings.Contains(Reason(err, ErrInvalidClient), why) {
				t.Errorf("%v, want %q", err, why)
			}
		}
		fatal(t, signIn(one, "k1"))
		fatal(t, signIn(one, one.Key().Thumbprint))
		fatal(t, signIn(one, ""))
		for _, next := range []struct {
			now, former              *jose.PrivateKey
			kid, formerKID, document string
		}{
			{two, one, "k2", "k1", second},
			{three, two, "k2", "k2", third},
			{four, three, "", "k2", fourth},
		} {
			asked := at.asked
			at.become(false, next.document)
			refused(signIn(next.now, next.kid), assertion.ErrNoClientKey.Error())
			fatal(t, signIn(next.former, next.formerKID))
			if at.asked != asked {
				t.Error("a client with a wrong key makes us ask at once")
			}
			time.Sleep(time.Minute)
			fatal(t, signIn(next.now, next.kid))
			refused(signIn(next.former, next.formerKID), "no key of a client")
		}
		at.become(true)
		for range 69 {
			before := time.Now()
			fatal(t, signIn(four, ""))
			if waited := time.Since(before); waited > 0 {
				t.Fatalf("a request waited %v", waited)
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(2 * time.Minute)
		if err := signIn(four, ""); !errors.Is(err, ErrKeysPending) {
			t.Errorf("after an hour: %v", err)
		}
		time.Sleep(10 * time.Second)
		refused(signIn(four, ""), "cannot be checked: the key set cannot be fetched: no whole answer")
		at.become(false, fourth)
		time.Sleep(time.Minute)
		fatal(t, signIn(four, ""))
	})
}

// The keys of a federation's issuer are followed as those of clients are: another key under one
// name, another kind of key under it, and a key that was withdrawn. A stranger who signs with keys
// of his own causes one fetch a minute. While the keys cannot be fetched the former ones count for
// an hour after they were fresh, and then none does until they can.
func TestFetchedFederationKeysAreFollowed(t *testing.T) {
	t.Parallel()
	storetest.NotOnPostgres(t, "a fake clock stands still while a connection is read")
	path := storetest.New(t)
	schema, err := os.ReadFile("../schema.sql")
	fatal(t, err)
	synctest.Test(t, func(t *testing.T) {
		db, err := store.Open(t.Context(), path, string(schema), store.Options{})
		fatal(t, err)
		go db.Run(t.Context(), store.RunOptions{})
		defer db.Close()
		company, _, err := db.Companies.Create(t.Context(), "acme", nil, time.Now())
		fatal(t, err)
		at := &published{}
		sets := keysets.New(at)
		defer sets.Close()
		agents := &Agents{Store: db, Most: func() int { return 10 }}
		federations := NewFederations(db, agents, &Nonces{Store: db}, &Refusals{Store: db}, sets, func(string) error { return nil })
		federations.MostSubjects = func() int { return 10 }
		key := func(algorithm, kid string) (*jose.PrivateKey, string) {
			made, err := jose.GenerateKey(algorithm)
			fatal(t, err)
			return made, strings.TrimSuffix(made.Key().JWK(), "}") + `,"kid":"` + kid + `"}`
		}
		one, first := key(jose.ES256, "k1")
		two, second := key(jose.ES256, "k1")
		three, third := key(jose.EdDSA, "k1")
		four, fourth := key(jose.EdDSA, "k4")
		stranger, _ := key(jose.EdDSA, "k4")
		at.become(false, first)
		admin := store.Caller{Company: company, Role: store.Admin, At: time.Now()}
		_, err = federations.Create(t.Context(), admin, NewFederation{Name: "ci", Issuer: "https://ci.example", Audience: "us",
			JWKSURI: "https://ci.example/jwks", Rules: []byte(`[{"match":{"sub":"job"},"agentId":"bot","register":true}]`)})
		fatal(t, err)
		signIn := func(key *jose.PrivateKey, kid string) error {
			now := time.Now()
			claims := map[string]any{"iss": "https://ci.example", "sub": "job", "aud": "us", "exp": now.Add(time.Minute).Unix()}
			text := josetest.Forge(t, key, josetest.Marshal(t, map[string]any{"alg": key.Key().Algorithm, "kid": kid}), josetest.Marshal(t, claims))
			_, err := federations.Federate(t.Context(), Federating{Assertion: text, CompanyID: "acme"}, now)
			return err
		}
		refused := func(err error, why string) {
			t.Helper()
			if !errors.Is(err, ErrInvalidGrant) || !strings.Contains(Reason(err, ErrInvalidGrant), why) {
				t.Errorf("%v, want %q", err, why)
			}
		}
		fatal(t, signIn(one, "k1"))
		for _, next := range []struct {
			now, former             *jose.PrivateKey
			kid, formerKID          string
			document, before, after string
		}{
			{two, one, "k1", "k1", second, "is not signed with the issuer's key", "is not signed with the issuer's key"},
			{three, two, "k1", "k1", third, "has an alg that is not that of the issuer's key", "has an alg that is not that of the issuer's key"},
			{four, three, "k4", "k1", fourth, "not in the issuer's key set", "not in the issuer's key set"},
		} {
			asked := at.asked
			at.become(false, next.document)
			refused(signIn(next.now, next.kid), next.before)
			fatal(t, signIn(next.former, next.formerKID)) // it cannot be known yet
			if at.asked != asked {
				t.Error("a client with a wrong key makes us ask at once")
			}
			time.Sleep(time.Minute)
			fatal(t, signIn(next.now, next.kid))
			refused(signIn(next.former, next.formerKID), next.after)
		}
		asked := at.asked
		for range 300 {
			time.Sleep(time.Second)
			refused(signIn(stranger, "k4"), "is not signed with the issuer's key")
			fatal(t, signIn(four, "k4"))
		}
		if n := at.asked - asked; n < 4 || n > 5 {
			t.Errorf("a stranger makes us ask %d times in five minutes", n)
		}
		time.Sleep(time.Minute)
		refused(signIn(stranger, "k4"), "is not signed")
		at.become(true)
		for range 69 {
			before := time.Now()
			fatal(t, signIn(four, "k4"))
			if waited := time.Since(before); waited > 0 {
				t.Fatalf("a request waited %v", waited)
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(2 * time.Minute)
		if err := signIn(four, "k4"); !errors.Is(err, ErrKeysPending) {
			t.Errorf("after an hour: %v", err)
		}
		time.Sleep(10 * time.Second)
		refused(signIn(four, "k4"), "cannot be checked: the key set cannot be fetched: no whole answer")
		at.become(false, fourth)
		time.Sleep(time.Minute)
		fatal(t, signIn(four, "k4"))
	})
}
