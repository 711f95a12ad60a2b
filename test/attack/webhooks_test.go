package attack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"attestd/internal/harness"
	"attestd/internal/sleep"
)

// manyEndpoints is far more webhooks than a company has concurrent attempts.
const manyEndpoints = 16

// slowWebhooks has many companies with many endpoints that respond late, and records for all of
// them. A record of another company must reach its endpoint at once, whether that is known as fast
// or not.
func slowWebhooks(ctx context.Context, r *run) error {
	companies, answer, rounds := 40, 3*time.Second, 60
	if short() {
		companies, answer, rounds = 24, 1500*time.Millisecond, 10
	}
	s, _, err := r.Lab.ServeNew(ctx, "--rate-limits", "off", "--webhooks-allow-private")
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }()
	// companies, each time an endpoint of theirs receives something
	arrived := make(chan string, rounds+1)
	over, end := context.WithCancel(ctx)
	begun := make(chan struct{}, companies*manyEndpoints*rounds)
	endpoints := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		if company, isGood := strings.CutPrefix(request.URL.Path, "/good/"); isGood {
			arrived <- company
			return
		}
		begun <- struct{}{}
		select {
		case <-time.After(answer):
		case <-over.Done():
		}
	}))
	defer endpoints.Close()
	defer end()
	if err := slowCompanies(ctx, s.Addr, endpoints.URL+"/slow", companies, 3+rounds/8); err != nil {
		return err
	}
	select {
	case <-begun:
	case <-time.After(harness.Patience):
		return errors.New("the slow endpoints are not sent anything")
	}
	for full := false; !full; { // until all places for slow endpoints are taken
		select {
		case <-begun:
		case <-time.After(300 * time.Millisecond):
			full = true
		}
	}
	c := &harness.Client{Addr: s.Addr}
	defer c.Close()
	var worst time.Duration
	var known string // key of a company whose endpoint is known as fast
	for round := range rounds {
		if err := sleep.For(ctx, answer/8); err != nil {
			return err
		}
		company, key := "known", known
		if round%2 == 0 { // an unknown endpoint; the first stays
			if known != "" {
				company = fmt.Sprint("new-", round)
			}
			if key, err = c.Register(company); err == nil {
				err = subscribe(c, key, endpoints.URL+"/good/"+company)
			}
			if err != nil {
				return err
			}
			known = cmp.Or(known, key)
		}
		began := time.Now()
		if err := c.Call(201, harness.Request{Method: "POST", Path: "/v1/attest", Key: key,
			Body: `{"agentId":"a","actionType":"b","payload":1}`}, nil); err != nil {
			return err
		}
		select {
		case got := <-arrived:
			if got != company {
				return fmt.Errorf("a message for %s came, not for %s", got, company)
			}
		case <-time.After(harness.Patience):
			return fmt.Errorf("nothing reached the endpoint of %s", company)
		}
		if took := time.Since(began); took > worst {
			worst = took
		}
	}
	if worst > answer/3 {
		r.Errorf("a company waited %v for its delivery beside slow endpoints of others", worst.Round(time.Millisecond))
	}
	end()
	r.Count(companies*manyEndpoints, "slow webhooks")
	r.Count(rounds, "records of others")
	r.Count(int(worst.Milliseconds()), "ms for the slowest of them")
	return s.Stop()
}

// slowCompanies registers companies with webhooks, and appends records for each, but not in a
// burst, during which all deliveries are slowed down.
func slowCompanies(ctx context.Context, addr, endpoint string, n, records int) error {
	keys := make([]string, n)
	err := many(ctx, addr, n, func(c *harness.Client, i int) (err error) {
		if keys[i], err = c.Register(fmt.Sprint("slow-", i)); err != nil {
			return err
		}
		for range manyEndpoints {
			if err := subscribe(c, keys[i], endpoint); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	record := `{"agentId":"a","actionType":"b","payload":1}`
	batch := `{"records":[` + strings.TrimSuffix(strings.Repeat(record+",", records), ",") + `]}`
	c := &harness.Client{Addr: addr}
	defer c.Close()
	for _, key := range keys {
		if err := c.Call(201, harness.Request{Method: "POST", Path: "/v1/attest/batch", Key: key, Body: batch},
			nil); err != nil {
			return err
		}
		if err := sleep.For(ctx, 40*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// subscribe creates a webhook.
func subscribe(c *harness.Client, key, url string) error {
	return c.Call(201, harness.Request{Method: "POST", Path: "/v1/webhooks", Key: key,
		Body: fmt.Sprintf(`{"url":%q}`, url)}, nil)
}
