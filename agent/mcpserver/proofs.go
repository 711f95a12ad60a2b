package mcpserver

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"sync"
	"time"

	"attestd/crypto/dpop"
)

// maxProofs bounds how many proofs are remembered, for five minutes each, or ten where a client's
// clock is ahead.
const maxProofs = 200_000

// proofs remembers the DPoP proofs that were used, so that each counts once (RFC 9449 §11.1). It
// forgets them with the process: who serves one resource by several must send a client to one.
type proofs struct {
	mu    sync.Mutex
	ends  map[[sha256.Size]byte]time.Time // of each proof: when it would be refused anyway
	swept time.Time
}

var errProofs = errors.New("too many DPoP proofs at once")

// prove requires a new DPoP proof of the key that an access token is bound to (RFC 9449 §7.1), for
// this request to the resource. The error is a *dpop.Error or errProofs.
func (p *protected) prove(r *http.Request, token, jkt string, now time.Time) error {
	sent := r.Header.Values("DPoP")
	if len(sent) != 1 {
		return &dpop.Error{Message: "DPoP proof is missing, or there are several: send one in the header DPoP"}
	}
	proof, err := dpop.Check(sent[0], dpop.Request{Method: r.Method, URL: p.URL, AccessToken: token}, jkt, now)
	if err != nil {
		return err
	}
	return p.proofs.use(&proof, now)
}

// use uses a proof up.
func (p *proofs) use(proof *dpop.Proof, now time.Time) error {
	name := sha256.Sum256([]byte(proof.Key.Thumbprint + "\n" + proof.ID))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ends == nil {
		p.ends = map[[sha256.Size]byte]time.Time{}
	}
	if now.Sub(p.swept) >= time.Minute {
		p.swept = now
		for name, ends := range p.ends {
			if !now.Before(ends) {
				delete(p.ends, name)
			}
		}
	}
	if ends, used := p.ends[name]; used && now.Before(ends) {
		return &dpop.Error{Message: "DPoP proof was used before: make one for each request"}
	}
	if len(p.ends) >= maxProofs {
		return errProofs
	}
	p.ends[name] = proof.IssuedAt.Add(dpop.Window + time.Second)
	return nil
}
