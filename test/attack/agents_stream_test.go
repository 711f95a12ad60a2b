package attack

import (
	"encoding/json"
	"errors"
	"net/url"

	"attestd/crypto/jose"
	"attestd/internal/harness"
)

// boundAtTheStream opens the stream with an access token that is bound to a key, as a client that
// has found only the token: in each of the ways in which a token opens it.
func (p *plot) boundAtTheStream() error {
	var client struct{ ClientID, ClientSecret string }
	if err := p.Call(201, harness.Request{Method: "POST", Path: "/v1/oauth/clients", Key: p.admin, Body: `{"role":"reader"}`}, &client); err != nil {
		return err
	}
	key, err := jose.GenerateKey(jose.ES256)
	if err != nil {
		return err
	}
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {client.ClientID}, "client_secret": {client.ClientSecret}}
	tokens := [2]struct {
		AccessToken string `json:"access_token"`
	}{}
	for i := range tokens {
		header := []string{formEncoded}
		if i == 0 {
			proof, err := proofOf(key, "POST", tokenPath, "")
			if err != nil {
				return err
			}
			header = append(header, proof)
		}
		if err := p.Call(200, harness.Request{Method: "POST", Path: tokenPath, Body: form.Encode(), Header: header}, &tokens[i]); err != nil {
			return err
		}
	}
	bound, bearer := tokens[0].AccessToken, tokens[1].AccessToken
	proof := func(of *jose.PrivateKey, method, path, token string) string {
		text, _ := proofOf(of, method, path, token) // the URL is sound
		return text[len("DPoP: "):]
	}
	const offer = "Sec-WebSocket-Protocol: attestd.bearer, "
	sound := proof(key, "GET", "/v1/ws", bound)
	err = p.allRefused(401, "", map[string]harness.Request{
		"the stream with a bound token":                           handshake("Authorization: Bearer " + bound),
		"the stream with a bound token as a subprotocol":          handshake(offer + bound),
		"the stream with a bound token by DPoP, without a proof":  handshake("Authorization: DPoP " + bound),
		"the stream with a bound token and an empty proof":        handshake(offer + bound + ", attestd.dpop, "),
		"the stream with a bound token and another's proof":       handshake(offer + bound + ", attestd.dpop, " + proof(p.evil.key, "GET", "/v1/ws", bound)),
		"the stream with a bound token and a proof for its chain": handshake(offer + bound + ", attestd.dpop, " + proof(key, "GET", "/v1/chain", bound)),
		"the stream with a bound token and a proof of another":    handshake(offer + bound + ", attestd.dpop, " + proof(key, "GET", "/v1/ws", bearer)),
		"the stream with a bearer token and a proof":              handshake(offer + bearer + ", attestd.dpop, " + proof(key, "GET", "/v1/ws", bearer)),
		"the stream with an agent's bound token":                  handshake(offer + p.evil.bound),
	})
	return errors.Join(err, p.follows(offer+bound+", attestd.dpop, "+sound),
		p.refused("the proof of a stream, sent again", handshake(offer+bound+", attestd.dpop, "+sound), 401, "INVALID_DPOP_PROOF"))
}

// follows requires that a stream opens, and hears of a record.
func (p *plot) follows(offer string) error {
	conn, status, err := follow(p.Addr, "", "Sec-WebSocket-Protocol", offer[len("Sec-WebSocket-Protocol: "):], "Host", "127.0.0.1")
	if err != nil {
		p.Errorf("a bound token with its proof does not open the stream: %d %v", status, err)
		return nil
	}
	defer conn.Close()
	if err := p.accepted("a record beside the stream", p.evil.attest(p.evil.bearer, ""), 201); err != nil {
		return err
	}
	_, text, err := conn.ReadMessage()
	var message struct{ Valid bool }
	if err == nil {
		err = json.Unmarshal(text, &message)
	}
	if err == nil && !message.Valid {
		p.Errorf("the stream brings %.300s", text)
	}
	return err
}
