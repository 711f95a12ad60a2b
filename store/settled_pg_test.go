package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// A right that was revoked on one server is refused by another, which has just cached it, as soon
// as the first has answered.
func TestRevocationVisibleOnAllServers(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	url := storetest.Shared(t)
	a, b := openWith(t, url, store.RunOptions{}), openWith(t, url, store.RunOptions{})
	for name, c := range map[string]func(t *testing.T, company *store.Company) (take func() error, holds func() bool){
		"an API key": func(t *testing.T, company *store.Company) (func() error, func() bool) {
			k := got(a.Credentials.CreateKey(ctx, by(company, time.Now()), nil, full, 1000))(t)
			return func() error { return a.Credentials.DeleteKey(ctx, by(company, time.Now()), k.Key) }, func() bool {
				_, err := b.Credentials.Authenticate(ctx, keys.HashSecret(k.Key), time.Now())
				return !errors.Is(err, store.ErrNotFound)
			}
		},
		"an OAuth client and its token": func(t *testing.T, company *store.Company) (func() error, func() bool) {
			client, secret, err := a.Credentials.CreateClient(ctx, by(company, time.Now()), full, 1000)
			must.OK(t, err)
			token, _, err := b.Credentials.IssueTo(ctx, client.ID, secret, time.Hour, time.Now())
			must.OK(t, err)
			return func() error {
					_, err := a.Credentials.DeleteClient(ctx, by(company, time.Now()), client.ID)
					return err
				}, func() bool {
					_, _, issued := b.Credentials.IssueTo(ctx, client.ID, secret, time.Hour, time.Now())
					_, err := b.Credentials.Authenticate(ctx, keys.HashSecret(token), time.Now())
					return !errors.Is(err, store.ErrNotFound) || !errors.Is(issued, store.ErrBadClient)
				}
		},
		"a passport": func(t *testing.T, company *store.Company) (func() error, func() bool) {
			must.OK(t, a.Passports.Record(ctx, by(company, time.Now()), store.Passport{JTI: company.ID, AgentID: "bot", Scopes: []string{"*"}, ExpiresAt: 1 << 40}))
			return func() error {
					_, err := a.Passports.Revoke(ctx, by(company, time.Now()), company.ID, nil)
					return err
				}, func() bool {
					revoked, err := b.Passports.IsRevoked(ctx, by(company, time.Now()), company.ID)
					return err != nil || !revoked
				}
		},
		"an agent": func(t *testing.T, company *store.Company) (func() error, func() bool) {
			_, err := a.Agents.Register(ctx, by(company, time.Now()), "bot", nil, many)
			must.OK(t, err)
			return func() error {
				_, _, err := a.Agents.Disable(ctx, by(company, time.Now()), "bot")
				return err
			}, func() bool { return !errors.Is(b.Agents.Check(ctx, by(company, time.Now()), "bot"), store.ErrDisabled) }
		},
		"a signing key": func(t *testing.T, company *store.Company) (func() error, func() bool) {
			k := got(a.Credentials.CreateKey(ctx, by(company, time.Now()), nil, full, 1000))(t)
			former := company.Issuer.Public.KID
			return func() error {
					_, _, err := a.Companies.RotateKey(ctx, by(company, time.Now()), true)
					return err
				}, func() bool {
					caller, err := b.Credentials.Authenticate(ctx, keys.HashSecret(k.Key), time.Now())
					found, _ := b.Companies.Get(ctx, company.ID)
					return err != nil || caller.Company.Issuer.Public.KID == former || found.Issuer.Public.KID == former
				}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range 8 {
				t.Run("", func(t *testing.T) {
					t.Parallel()
					company, _ := company(t, a, fmt.Sprintf("c%d-%x", i, name))
					take, holds := c(t, company)
					stop := make(chan struct{})
					var asking sync.WaitGroup
					asking.Go(func() { // so that it is cached, whenever it is revoked
						often := time.NewTicker(time.Millisecond) // it is cached for far longer
						defer often.Stop()
						for {
							holds()
							select {
							case <-stop:
								return
							case <-often.C:
							}
						}
					})
					defer asking.Wait()
					defer close(stop)
					must.OK(t, take())
					if holds() {
						t.Error("it still holds")
					}
				})
			}
		})
	}
}
