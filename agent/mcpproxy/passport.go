package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"attestd/crypto/cred"
	"attestd/crypto/jose"
)

// Authority verifies the passports of a company.
type Authority interface {
	// CheckPassport verifies everything but revocation, offline.
	CheckPassport(token string, now time.Time) (cred.PassportClaims, error)
	// Revoked asks the service whether a passport is revoked, or differs from the issued one. An
	// error means that the status is unknown.
	Revoked(ctx context.Context, token, jti string) (bool, error)
}

// Passport is a Gate that allows the calls which the passport in a file covers. It reads the file
// at each call, so the file can be replaced. It checks revocation at a call, at most every 30 s.
// While the service is unavailable, the last known status counts, and an unknown one counts as
// valid.
type Passport struct {
	path       string
	agent      string
	authority  Authority
	failClosed bool // refuse all calls while the service is unavailable

	mu      sync.Mutex
	token   string    // the passport of the last status check
	asked   time.Time // time of that check; zero for none
	revoked bool      // final
}

const (
	statusLife    = 30 * time.Second
	statusTimeout = 2 * time.Second
)

// NewPassport reads and checks the passport in a file. If agent is "", the passport's agent is
// used; otherwise they MUST be equal.
func NewPassport(path, agent string, a Authority, failClosed bool) (*Passport, error) {
	p := &Passport{path: path, agent: agent, authority: a, failClosed: failClosed}
	_, claims, err := p.read(time.Now())
	if err != nil {
		return nil, err
	}
	p.agent = claims.AgentID
	return p, nil
}

// Agent returns the passport's agent.
func (p *Passport) Agent() string { return p.agent }

// AgentOf returns the agent in a passport that is not checked, or "".
func AgentOf(token string) string {
	t, err := jose.Parse(token, cred.MaxTokenSize)
	var claims struct{ Sub string }
	if err != nil || json.Unmarshal(t.Payload, &claims) != nil {
		return ""
	}
	_, agent, _ := strings.Cut(claims.Sub, "/agent/")
	return agent
}

// Check implements Gate.
func (p *Passport) Check(ctx context.Context, server, tool string, arguments []byte) (passport string, err error) {
	token, claims, err := p.read(time.Now())
	if err != nil {
		return "", err
	}
	if _, err := claims.GrantOn(server, tool, arguments); err != nil {
		return "", err
	}
	return token, p.status(ctx, token, claims.ID)
}

// read reads the passport and checks everything but scope, details and revocation.
func (p *Passport) read(now time.Time) (token string, c cred.PassportClaims, err error) {
	f, err := os.Open(p.path)
	if err != nil {
		return "", c, errors.New("the passport file cannot be read")
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, cred.MaxTokenSize+2)) // allows for a line end
	if err != nil {
		return "", c, errors.New("the passport file cannot be read")
	}
	token = strings.TrimSpace(string(text))
	if c, err = p.authority.CheckPassport(token, now); err != nil {
		return "", c, fmt.Errorf("the passport is not valid: %w", err)
	}
	if p.agent != "" && c.AgentID != p.agent {
		return "", c, errors.New("the passport belongs to another agent")
	}
	return token, c, nil
}

// status refuses a passport that is known to be revoked or to differ from the issued one.
// Concurrent calls wait for one request.
func (p *Passport) status(ctx context.Context, token, jti string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if token != p.token {
		p.token, p.asked, p.revoked = token, time.Time{}, false
	}
	if !p.revoked && time.Since(p.asked) >= statusLife {
		ctx, cancel := context.WithTimeout(ctx, statusTimeout)
		defer cancel()
		revoked, err := p.authority.Revoked(ctx, token, jti)
		switch {
		case err == nil:
			p.asked, p.revoked = time.Now(), revoked
		case p.failClosed:
			return errors.New("attestd gave no revocation status for the passport")
		default:
			p.asked = time.Now()
		}
	}
	if p.revoked {
		return errors.New("the passport is revoked")
	}
	return nil
}
