package attack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/gorilla/websocket"

	"attestd/internal/harness"
	"attestd/internal/sleep"
)

// each calls do with a client repeatedly, with a pause between, until the time is over. An error of
// do is a failure.
func (k *load) each(ctx context.Context, pause time.Duration, do func(c *harness.Client, n int) error) {
	c := &harness.Client{Addr: k.addr, Wait: 5 * time.Minute}
	defer c.Close()
	for n := 0; sleep.For(ctx, pause) == nil; n++ {
		if err := do(c, n); err != nil {
			k.Errorf("beside the load: %v", err)
			return
		}
	}
}

// ask sends a request as a tenant.
func (k *load) ask(c *harness.Client, t *customer, status int, method, path, body string, dest any) error {
	k.asked.Add(1)
	return c.Call(status, harness.Request{Method: method, Path: path, Key: t.key, Body: body}, dest)
}

// pages reads parts of chains.
func (k *load) pages(ctx context.Context) {
	k.each(ctx, 50*time.Millisecond, func(c *harness.Client, n int) error {
		t := k.tenants[n%tenants]
		from := rand.Int64N(t.taken.Load() + 1)
		var page struct{ Records []struct{ Index int64 } }
		if err := k.ask(c, t, 200, "GET", fmt.Sprintf("/v1/chain?from=%d&limit=500", from), "", &page); err != nil {
			return err
		}
		for i, record := range page.Records {
			if record.Index != from+int64(i) {
				return fmt.Errorf("record %d stands at %d", record.Index, from+int64(i))
			}
		}
		return nil
	})
}

// proofs requests proofs and checks them.
func (k *load) proofs(ctx context.Context) {
	k.each(ctx, 20*time.Millisecond, func(c *harness.Client, n int) error {
		t := k.tenants[n%tenants]
		length := t.taken.Load()
		if length == 0 {
			return nil
		}
		var p struct {
			Record struct{ Hash string }
			Proof  []struct{ Sibling, Position string }
			Root   string
		}
		if err := k.ask(c, t, 200, "GET", fmt.Sprintf("/v1/proof/%d", rand.Int64N(length)), "", &p); err != nil {
			return err
		}
		current := p.Record.Hash
		for _, node := range p.Proof {
			pair := current + node.Sibling
			if node.Position == "left" {
				pair = node.Sibling + current
			}
			sum := sha256.Sum256([]byte(pair))
			current = hex.EncodeToString(sum[:])
		}
		if current != p.Root {
			return errors.New("a proof does not lead to its root")
		}
		return nil
	})
}

// verifies verifies whole chains, one after the other.
func (k *load) verifies(ctx context.Context) {
	k.each(ctx, 5*time.Second, func(c *harness.Client, n int) error {
		k.asked.Add(1)
		k.valid(c, k.tenants[n%tenants])
		return nil
	})
}

// tokens requests access tokens, SVIDs and delegations, and uses them.
func (k *load) tokens(ctx context.Context) {
	k.each(ctx, 50*time.Millisecond, func(c *harness.Client, n int) error {
		t := k.tenants[n%tenants]
		var oauth struct {
			AccessToken string `json:"access_token"`
		}
		body := fmt.Sprintf(`{"grant_type":"client_credentials","client_id":%q,"client_secret":%q}`, t.client, t.secret)
		if err := k.ask(c, t, 200, "POST", "/v1/oauth/token", body, &oauth); err != nil {
			return err
		}
		as := &customer{key: oauth.AccessToken}
		var svid struct{ SVID string }
		if err := k.ask(c, as, 200, "GET", "/v1/agents/bot/svid", "", &svid); err != nil {
			return err
		}
		var delegation struct{ Token string }
		if err := k.ask(c, as, 201, "POST", "/v1/token-exchange", `{"agentId":"bot","actingOn":"acme","scope":"read"}`,
			&delegation); err != nil {
			return err
		}
		const jwt = "urn:ietf:params:oauth:token-type:jwt"
		return k.ask(c, as, 200, "POST", "/v1/token/exchange", fmt.Sprintf(`{"grant_type":"urn:ietf:params:oauth:grant-type:token-exchange",
			"subject_token":%q,"subject_token_type":%q,"actor_token":%q,"actor_token_type":%q}`, delegation.Token, jwt, svid.SVID, jwt), nil)
	})
}

// passports issues, verifies and revokes passports.
func (k *load) passports(ctx context.Context) {
	k.each(ctx, 50*time.Millisecond, func(c *harness.Client, n int) error {
		t := k.tenants[n%tenants]
		var issued struct{ Passport string }
		if err := k.ask(c, t, 201, "POST", "/v1/agents/bot/passport", "", &issued); err != nil {
			return err
		}
		body := `{"passport":"` + issued.Passport + `"}`
		var read struct{ Claims struct{ JTI string } }
		if err := k.ask(c, t, 200, "POST", "/v1/passport/verify", body, &read); err != nil {
			return err
		}
		if err := k.ask(c, t, 200, "POST", "/v1/passports/"+read.Claims.JTI+"/revoke", "", nil); err != nil {
			return err
		}
		return k.ask(c, t, 400, "POST", "/v1/passport/verify", body, nil)
	})
}

// follow is a client of the stream: of one tenant, or of all if t is nil. Each tenant's records
// must arrive in order and without a gap.
func (k *load) follow(t *customer) func(context.Context) {
	return func(ctx context.Context) {
		for ctx.Err() == nil {
			err := k.listen(ctx, t)
			if websocket.IsCloseError(err, websocket.CloseTryAgainLater) {
				// the machine is too busy for this client, so the server rightly disconnects it
				k.behind.Add(1)
				continue
			}
			if err != nil && ctx.Err() == nil {
				k.Errorf("a client of the stream: %v", err)
				return
			}
		}
	}
}

func (k *load) dial(t *customer) (*websocket.Conn, error) {
	header := http.Header{}
	if t != nil {
		header.Set("Authorization", "Bearer "+t.key)
	}
	conn, _, err := websocket.DefaultDialer.Dial("ws://"+k.addr+"/v1/ws", header)
	return conn, err
}

func (k *load) listen(ctx context.Context, t *customer) error {
	conn, err := k.dial(t)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	next := map[string]int64{}
	for {
		_, text, err := conn.ReadMessage()
		if err != nil {
			return err
		}
		var message struct {
			Record struct {
				Index   int64
				Payload struct{ CompanyID string }
			}
			Valid bool
		}
		if err := json.Unmarshal(text, &message); err != nil {
			return err
		}
		company, index := message.Record.Payload.CompanyID, message.Record.Index
		due, known := next[company]
		switch {
		case !message.Valid:
			return fmt.Errorf("record %d of %s: not valid: %.200s", index, company, text)
		case t != nil && company != t.id:
			return fmt.Errorf("%s is shown a record of %s", t.id, company)
		case known && index != due:
			return fmt.Errorf("record %d of %s comes after %d", index, company, due-1)
		}
		next[company] = index + 1
		k.streamed.Add(1)
	}
}

// stall is a client of the stream that never reads, and reconnects.
func (k *load) stall(ctx context.Context) {
	for ctx.Err() == nil {
		conn, err := k.dial(nil)
		if err != nil {
			k.Errorf("a client of the stream: %v", err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
		}
		conn.Close()
	}
}
