package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"attestd/crypto/cred"
	"attestd/crypto/dpop"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/internal/harness"
)

const signedSection = "signed by agents"

// signed measures appends with statements in turns with plain appends to the same server, and
// sessions as files.
func (b *bench) signed(ctx context.Context) (err error) {
	server, t, err := b.serveTenant(ctx, "signed.db")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	if err := registerAgent(ctx, server.addr, t); err != nil {
		return err
	}
	for _, kind := range []struct {
		column, algorithm string
		least             float64
	}{{"Ed25519", jose.EdDSA, 0.55}, {"P-256", jose.ES256, 0.5}} {
		key, err := enrol(ctx, server, t, kind.algorithm)
		if err != nil {
			return err
		}
		if err := b.signedAppends(ctx, server, t, key, kind.column, kind.least); err != nil {
			return fmt.Errorf("%s: %w", kind.column, err)
		}
		if err := b.sessionFiles(ctx, server, t, key, kind.column); err != nil {
			return fmt.Errorf("%s: sessions: %w", kind.column, err)
		}
	}
	return nil
}

// enrolled is a key of the caller's agent.
type enrolled struct {
	*jose.PrivateKey
	log string // origin of the log for which it signs
}

// enrol makes a key of the caller's agent.
func enrol(ctx context.Context, server *child, t tenant, algorithm string) (enrolled, error) {
	const path = "/v1/agents/" + callerAgent + "/keys"
	key, err := jose.GenerateKey(algorithm)
	if err != nil {
		return enrolled{}, err
	}
	// requests of this generator have the address without the port as their Host
	proof, err := dpop.Make(ctx, key, dpop.Request{Method: http.MethodPost, URL: harness.Base + path}, time.Now())
	if err != nil {
		return enrolled{}, err
	}
	req := request("POST", path, t.key, jsonType, `{"jwk":`+key.Key().JWK()+`}`)
	req = bytes.Replace(req, []byte("\r\n"), []byte("\r\nDPoP: "+proof+"\r\n"), 1)
	var answer struct{ Log string }
	_, err = ask(ctx, server.addr, req, 201, &answer)
	return enrolled{key, answer.Log}, err
}

// signedSession is a session of the caller's agent. It is used by one goroutine at a time.
type signedSession struct {
	key    enrolled
	claims statement.Claims // of the next statement
}

func newSignedSession(t tenant, key enrolled, session string) (*signedSession, error) {
	hash, err := statement.HashAction(callerAction, callerAgent, t.id, []byte(callerPayload))
	domain := cred.Domain{TrustDomain: "attestd.local"} // serve's default
	return &signedSession{key, statement.Claims{
		Issuer: domain.AgentID(t.id, callerAgent), Audience: domain.CompanyID(t.id), Log: key.log, ActionHash: hash, Session: session,
	}}, err
}

// next returns the members of a record with the next statement.
func (s *signedSession) next(ctx context.Context, last bool) (string, error) {
	s.claims.IssuedAt, s.claims.End = time.Now().Unix(), last
	made, err := statement.Make(ctx, s.key, s.claims)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(made.Compact))
	s.claims.Seq++
	s.claims.Previous = hex.EncodeToString(sum[:])
	return `{"agentId":"` + callerAgent + `","actionType":"` + callerAction + `","payload":` + callerPayload + `,"statement":"` + made.Compact + `"}`, nil
}

// signedSide sends n statements, which are made before. A round that needs more ends with an error.
func signedSide(ctx context.Context, server *child, t tenant, key enrolled, n int) (*side, error) {
	session, err := newSignedSession(t, key, "appends-"+key.Key().Thumbprint)
	if err != nil {
		return nil, err
	}
	pool := make([][]byte, n)
	for i := range pool {
		body, err := session.next(ctx, false)
		if err != nil {
			return nil, err
		}
		pool[i] = request("POST", "/v1/attest", t.key, jsonType, body)
	}
	spent := request("POST", "/too-few-statements-were-made", t.key, jsonType, "{}")
	var used atomic.Int64
	return &side{child: server, status: 201, request: func(int) []byte {
		if i := used.Add(1) - 1; i < int64(n) {
			return pool[i]
		}
		return spent
	}}, nil
}

// signedAppends compares appends by 64 clients. The statements are made before, so that the
// generator does the same in both turns.
func (b *bench) signedAppends(ctx context.Context, server *child, t tenant, key enrolled, column string, least float64) error {
	b.say("signed appends, %s", column)
	subject, err := signedSide(ctx, server, t, key, pick(b.quick, 12_000, 75_000))
	if err != nil {
		return err
	}
	plain := attestRequest(t)
	reference := &side{child: server, status: 201, request: func(int) []byte { return plain }}
	for _, s := range []*side{subject, reference} {
		if s.clients, err = connect(ctx, server.addr, 64); err != nil {
			return err
		}
		defer hangUp(s.clients)
	}
	c, err := compare(ctx, subject, reference, pick(b.quick, 3, 7), pick(b.quick, 150*time.Millisecond, 500*time.Millisecond))
	if err != nil {
		return err
	}
	b.report.add(signedSection, column, "appends with a statement, 64 clients, records/s", c.perSecond, perSecond, nil)
	b.report.addRounds(signedSection, column, "  ÷ without", c.ratios, atLeast(least))
	b.report.add(signedSection, column, "  without, records/s", c.barePerSecond, perSecond, nil)
	if c.hasCPU {
		b.report.add(signedSection, column, "  server CPU each", micros(c.cpu), micro, nil)
		b.report.add(signedSection, column, "  without", micros(c.bareCPU), micro, nil)
	}
	return nil
}

// sessionFiles measures the file of a sealed session, and of one with a tenth of its records.
func (b *bench) sessionFiles(ctx context.Context, server *child, t tenant, key enrolled, column string) error {
	n := pick(b.quick, 2_000, 10_000)
	var each []float64 // of a record, of both
	for _, records := range []int{n / 10, n} {
		b.say("a session of %d records, %s", records, column)
		sid := fmt.Sprintf("run-%d-%s", records, key.Key().Thumbprint)
		session, err := newSignedSession(t, key, sid)
		if err != nil {
			return err
		}
		for at := 0; at < records; at += batchOf {
			batch := make([]string, batchOf)
			for i := range batch {
				if batch[i], err = session.next(ctx, at+i == records-1); err != nil {
					return err
				}
			}
			req := request("POST", "/v1/attest/batch", t.key, jsonType, `{"records":[`+strings.Join(batch, ",")+`]}`)
			if _, err := ask(ctx, server.addr, req, 201, nil); err != nil {
				return err
			}
		}
		path := "/v1/sessions/" + callerAgent + "/" + sid + "?kid=" + key.Key().Thumbprint
		took, err := b.fetchSession(ctx, server, t, path, records)
		if err != nil {
			return err
		}
		each = append(each, took/float64(records))
	}
	var bound *target
	if !b.quick {
		bound = atMost(300)
	}
	b.report.add(signedSection, column, fmt.Sprintf("file of a session of %d, median", n), each[1]*float64(n), milli, bound)
	b.report.add(signedSection, column, "  a record ÷ a record of a tenth", each[1]/each[0], ratio, atMost(1.2))
	return nil
}

// fetchSession returns the median time in ms that the file of a session takes.
func (b *bench) fetchSession(ctx context.Context, server *child, t tenant, path string, records int) (float64, error) {
	c, err := dial(ctx, server.addr)
	if err != nil {
		return 0, err
	}
	defer c.conn.Close()
	defer limit(ctx, []*client{c}, time.Time{})()
	var took []float64
	for range pick(b.quick, 5, 15) {
		start := time.Now()
		status, body, err := c.do(request("GET", path, t.key, "", ""))
		took = append(took, millis(time.Since(start)))
		if err == nil && (status != 200 || bytes.Count(body, []byte("\n")) != records+1) {
			err = fmt.Errorf("answer %d with %d lines: %.200s", status, bytes.Count(body, []byte("\n")), body)
		}
		if err != nil {
			return 0, err
		}
	}
	return median(took), nil
}
