package attack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"attestd/internal/harness"
)

// freshKeys uses a new key for each call, against which the limit per credential is not enough. A
// company has ten times the tier.
func freshKeys(ctx context.Context, r *run) error {
	g, err := besiege(ctx, r, 700*time.Millisecond)
	if err != nil {
		return err
	}
	const n, budget = 2000, 10 * 100
	var accepted, refused atomic.Int64
	keys := make(chan string, 32) // each worker takes one and returns a new one
	for range cap(keys) {
		keys <- g.key
	}
	err = many(ctx, g.Addr, n, func(c *harness.Client, i int) error {
		key := <-keys
		defer func() { keys <- key }()
		var made struct{ Key string }
		a, err := c.Do(harness.Request{Method: "POST", Path: "/v1/keys", Key: key, Header: []string{address(i)}})
		if err != nil || a.Status == http.StatusTooManyRequests {
			return err
		}
		if err := harness.Read(a, 201, &made); err != nil {
			return err
		}
		used := key
		key = made.Key
		a, err = c.Do(harness.Request{Method: "POST", Path: "/v1/attest", Key: key, Header: []string{address(i)},
			Body: `{"agentId":"a","actionType":"b","payload":1}`})
		if err != nil {
			return err
		}
		switch a.Status {
		case http.StatusCreated:
			accepted.Add(1)
		case http.StatusTooManyRequests:
			refused.Add(1)
		default:
			g.Errorf("attest answers %d: %.200s", a.Status, a.Body)
		}
		if used == g.key { // it stays for the other workers
			return nil
		}
		_, err = c.Do(harness.Request{Method: "DELETE", Path: "/v1/keys/" + used, Key: key, Header: []string{address(i)}})
		return err
	})
	if accepted.Load() > budget*11/10 {
		g.Errorf("one company got %d attests within a minute with fresh keys, its budget is %d", accepted.Load(), budget)
	}
	r.Count(int(accepted.Load()), "attests")
	r.Count(int(refused.Load()), "refused")
	return errors.Join(err, g.lift(400*mebibyte))
}

// freshCompanies registers many companies from one address, each with the key of the last one.
func freshCompanies(ctx context.Context, r *run) error {
	g, err := besiege(ctx, r, 700*time.Millisecond)
	if err != nil {
		return err
	}
	const n, budget = 3000, 1000
	var made, refused atomic.Int64
	keys := make(chan string, 32)
	for range cap(keys) {
		keys <- g.key
	}
	err = many(ctx, g.Addr, n, func(c *harness.Client, i int) error {
		key := <-keys
		defer func() { keys <- key }()
		a, err := c.Do(harness.Request{Method: "POST", Path: "/v1/companies", Key: key, Header: []string{badAddress},
			Body: fmt.Sprintf(`{"companyId":"c-%d"}`, i)})
		if err != nil {
			return err
		}
		if a.Status == http.StatusTooManyRequests {
			refused.Add(1)
			return nil
		}
		made.Add(1)
		var company struct{ APIKey string }
		if err := harness.Read(a, 201, &company); err != nil {
			return err
		}
		key = company.APIKey
		return nil
	})
	if made.Load() > budget*11/10 {
		g.Errorf("one address registered %d companies within a minute, its budget is %d", made.Load(), budget)
	}
	r.Count(int(made.Load()), "companies")
	r.Count(int(refused.Load()), "refused")
	return errors.Join(err, g.lift(400*mebibyte))
}

// metadata sends large metadata and reasons, which are refused, and then the allowed maximum to
// many companies.
func metadata(ctx context.Context, r *run) error {
	g, err := besiege(ctx, r, 200*time.Millisecond, "--rate-limits", "off")
	if err != nil {
		return err
	}
	err = g.largeTexts()
	const n = 900
	if err == nil {
		note := strings.Repeat("m", 16<<10-100)
		err = many(ctx, g.Addr, n, func(c *harness.Client, i int) error {
			var company struct{ APIKey string }
			body := fmt.Sprintf(`{"companyId":"c-%d","metadata":{"note":%q}}`, i, note)
			if err := c.Call(201, harness.Request{Method: "POST", Path: "/v1/companies", Body: body}, &company); err != nil {
				return err
			}
			return c.Call(200, harness.Request{Method: "GET", Path: "/v1/company", Key: company.APIKey}, nil)
		})
	}
	r.Count(n, "companies")
	return errors.Join(err, g.lift(300*mebibyte))
}

func (g *siege) largeTexts() error {
	c := &harness.Client{Addr: g.Addr}
	defer c.Close()
	if err := c.RegisterBot(g.key); err != nil {
		return err
	}
	jti, err := g.passport(c)
	if err != nil {
		return err
	}
	for _, size := range []int{17 << 10, 1000 << 10} {
		text := strings.Repeat("m", size)
		for _, request := range []harness.Request{
			{Method: "POST", Path: "/v1/companies", Body: fmt.Sprintf(`{"companyId":"large-%d","metadata":{"note":%q}}`, size, text)},
			{Method: "POST", Path: "/v1/agents/register", Key: g.key, Body: fmt.Sprintf(`{"agentId":"large-%d","metadata":{"note":%q}}`, size, text)},
			{Method: "POST", Path: "/v1/passports/" + jti + "/revoke", Key: g.key, Body: fmt.Sprintf(`{"reason":%q}`, text)},
		} {
			a, err := c.Do(request)
			if err != nil {
				return err
			}
			want := http.StatusBadRequest
			if request.Key == "" && size > 64<<10 { // larger than any body without a credential
				want = http.StatusRequestEntityTooLarge
			}
			if a.Status != want {
				g.Errorf("%s with a text of %d KiB answers %d, not %d", request.Path, size>>10, a.Status, want)
			}
		}
	}
	return nil
}

// rows creates keys and clients without end: a company may have 1,000 of each, and further ones are
// refused.
func rows(ctx context.Context, r *run) error {
	g, err := besiege(ctx, r, 200*time.Millisecond, "--rate-limits", "off")
	if err != nil {
		return err
	}
	const n, bound = 1100, 1000
	for _, path := range []string{"/v1/keys", "/v1/oauth/clients"} {
		var made atomic.Int64
		err = errors.Join(err, many(ctx, g.Addr, n, func(c *harness.Client, i int) error {
			a, err := c.Do(harness.Request{Method: "POST", Path: path, Key: g.key})
			switch {
			case err != nil:
				return err
			case a.Status == http.StatusCreated:
				made.Add(1)
			case a.Status != http.StatusConflict:
				g.Errorf("POST %s beyond the bound answers %d: %.200s", path, a.Status, a.Body)
			}
			return nil
		}))
		if made.Load() > bound {
			g.Errorf("POST %s made %d, the bound is %d", path, made.Load(), bound)
		}
		r.Count(int(made.Load()), path)
	}
	return errors.Join(err, g.lift(300*mebibyte))
}
