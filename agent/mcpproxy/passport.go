package mcpproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"attestd/crypto/cred"
)

// Authority says what a company's passports are worth.
type Authority interface {
	// CheckPassport makes every check of a passport but that of revocation, without the service.
	CheckPassport(token string, now time.Time) (cred.PassportClaims, error)
	// Revoked asks the service whether a passport is revoked, or was not issued as it stands. An
	// error says that no answer is to be had.
	Revoked(ctx context.Context, token, jti string) (bool, error)
}

// Passport is a Gate that lets those tools be called which the passport in a file covers. It is
// read at each call: a new one may stand there. Whether it is revoked is asked at a call, at most
// every 30 s. While the service does not answer, what it has said last counts; it may have said
// nothing.
type Passport struct {
	path       string
	agent      string
	authority  Authority
	failClosed bool // nothing passes while the service does not answer

	mu      sync.Mutex
	token   string    // the passport that was asked about
	asked   time.Time // when; zero where nothing is known
	revoked bool      // is never taken back
}

const (
	statusLife    = 30 * time.Second
	statusTimeout = 2 * time.Second
)

// NewPassport reads the passport in a file and checks it. agent "" takes that of the passport, else
// they must be the same.
func NewPassport(path, agent string, a Authority, failClosed bool) (*Passport, error) {
	p := &Passport{path: path, agent: agent, authority: a, failClosed: failClosed}
	_, claims, err := p.read(time.Now())
	if err != nil {
		return nil, err
	}
	p.agent = claims.AgentID
	return p, nil
}

// Agent is whose passport it is.
func (p *Passport) Agent() string { return p.agent }

// Check implements Gate.
func (p *Passport) Check(ctx context.Context, tool string) error {
	token, claims, err := p.read(time.Now())
	if err != nil {
		return err
	}
	if _, err := claims.Grant(&tool); err != nil {
		return err
	}
	return p.status(ctx, token, claims.ID)
}

// read reads the passport and makes every check but those of scope and revocation.
func (p *Passport) read(now time.Time) (token string, c cred.PassportClaims, err error) {
	f, err := os.Open(p.path)
	if err != nil {
		return "", c, errors.New("the file of the passport cannot be read")
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, cred.MaxTokenSize+2)) // the line may have an end
	if err != nil {
		return "", c, errors.New("the file of the passport cannot be read")
	}
	token = strings.TrimSpace(string(text))
	if c, err = p.authority.CheckPassport(token, now); err != nil {
		return "", c, fmt.Errorf("the passport is not valid: %w", err)
	}
	if p.agent != "" && c.AgentID != p.agent {
		return "", c, errors.New("the passport is of another agent")
	}
	return token, c, nil
}

// status refuses a passport that is revoked, or not as it was issued, as far as is known. One call
// asks for all that come meanwhile.
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
			return errors.New("attestd does not say whether the passport is revoked")
		default:
			p.asked = time.Now()
		}
	}
	if p.revoked {
		return errors.New("the passport is revoked")
	}
	return nil
}
