package attack

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"attestd/crypto/keys"
	"attestd/internal/harness"
)

// tokens presents forged tokens to every endpoint that accepts one. The forger has everything that
// a thief of the file has, including the private key, so that each check is tested by itself: no
// wrong signature hides the fault.
func tokens(ctx context.Context, r *run) error {
	s, db, err := r.Lab.ServeNew(ctx, "--rate-limits", "off")
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }()
	acme, err := newTenant(s.Addr, "acme")
	if err != nil {
		return err
	}
	globex, err := newTenant(s.Addr, "globex")
	if err != nil {
		return err
	}
	t, kinds, err := steal(db, acme)
	if err != nil {
		return err
	}
	short := struct{ Passport string }{}
	if err := acme.ask(201, "POST", "/v1/agents/deploy-bot/passport", `{"ttl":1}`, &short); err != nil {
		return err
	}
	svid := acme.svid

	g := &gate{run: r, addr: s.Addr, svid: svid}
	if err := g.good(acme, kinds, []string{doorVerify, doorDelegation, doorSubject, doorActor, doorStandardSubject, doorStandardActor}); err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // the short-lived passport expires
	before, err := acme.state()
	if err != nil {
		return err
	}
	var list []forgery
	for _, k := range kinds {
		for _, f := range slices.Concat(t.headers(k), t.contents(k), t.forms(k), t.signatures(k)) {
			list = append(list, forgery{k.name + ": " + f.name, f.token})
		}
	}
	list = append(list, forgery{"passport: run out", short.Passport})
	if err := g.refuse(ctx, acme.key, list, doors); err != nil {
		return err
	}
	// Each valid token must be refused by the endpoints for others, and for another tenant by all.
	for _, k := range kinds {
		one := []forgery{{k.name + ": good, of another kind", k.good}}
		if err := g.refuse(ctx, acme.key, one, slices.DeleteFunc(slices.Clone(doors), func(d string) bool {
			return slices.Contains(k.doors, d)
		})); err != nil {
			return err
		}
		one[0].name = k.name + ": good, of another tenant"
		if err := g.refuse(ctx, globex.key, one, doors); err != nil {
			return err
		}
	}
	after, err := acme.state()
	if err != nil {
		return err
	}
	if paths := differences(before, after); len(paths) > 0 {
		r.Errorf("forged tokens have changed what acme reads of itself: %s", strings.Join(paths, "; "))
	}
	// The valid tokens still are valid: nothing revoked the passport, and it can be rotated.
	if err := g.good(acme, kinds, doors); err != nil {
		return err
	}
	r.Count(len(list)+2*len(kinds), "tokens")
	r.Count(int(g.shown.Load()), "times shown")
	_, err = r.Lab.Verify(ctx, db)
	return errors.Join(err, s.Stop())
}

// steal reads the keys from the file, and decodes valid tokens of each kind.
func steal(db string, acme *tenant) (t thief, kinds []kind, err error) {
	if t.own, err = stolen(db, "acme"); err != nil {
		return t, nil, err
	}
	if t.other, err = stolen(db, "globex"); err != nil {
		return t, nil, err
	}
	if _, t.fresh, err = ed25519.GenerateKey(nil); err != nil {
		return t, nil, err
	}
	t.public = keys.Describe(t.own.Public().(ed25519.PublicKey))
	t.otherKID = keys.Describe(t.other.Public().(ed25519.PublicKey)).KID
	t.namespace = "service"

	svid, err := takeApart("SVID", acme.svid, doorDelegation, doorSubject, doorActor, doorStandardSubject, doorStandardActor)
	if err != nil {
		return t, nil, err
	}
	delegation, err := takeApart("delegation", acme.delegation, doorDelegation, doorSubject, doorStandardSubject)
	if err != nil {
		return t, nil, err
	}
	passport, err := takeApart("passport", acme.passport, doorVerify, doorRotate)
	if err != nil {
		return t, nil, err
	}
	if svid.header["kid"] != t.public.KID {
		return t, nil, fmt.Errorf("the file holds another key than the one that signs")
	}
	return t, []kind{svid, delegation, passport}, nil
}

// gate presents tokens to endpoints.
type gate struct {
	*run
	addr, svid string
	shown      atomic.Int64
}

// good presents valid tokens to the selected endpoints.
func (g *gate) good(acme *tenant, kinds []kind, at []string) error {
	for _, k := range kinds {
		for _, door := range k.doors {
			if !slices.Contains(at, door) {
				continue
			}
			request, _ := present(door, k.good, g.svid)
			request.Key = acme.key
			a, err := acme.Do(request)
			if err != nil {
				return err
			}
			if a.Status >= 300 {
				g.Errorf("a good %s is refused at %s: %d %.200s", k.name, door, a.Status, a.Body)
			}
		}
	}
	return nil
}

// refuse presents each token to each endpoint with a tenant's key. All must be refused.
func (g *gate) refuse(ctx context.Context, key string, list []forgery, at []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			c := &harness.Client{Addr: g.addr}
			defer c.Close()
			for ctx.Err() == nil {
				n := int(next.Add(1) - 1)
				if n >= len(list) {
					return
				}
				if err := g.one(c, key, list[n], at); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

func (g *gate) one(c *harness.Client, key string, f forgery, at []string) error {
	for _, door := range at {
		request, ok := present(door, f.token, g.svid)
		if !ok {
			continue
		}
		request.Key = key
		a, err := c.Do(request)
		if err != nil {
			return fmt.Errorf("%s at %s: %w", f.name, door, err)
		}
		g.shown.Add(1)
		if wrong := refusal(door, a); wrong != "" {
			g.Errorf("%s, at %s, %s", f.name, door, wrong)
		}
	}
	return nil
}
