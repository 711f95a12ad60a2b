package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gorilla/websocket"

	"attestd/internal/harness"
)

// follow opens the stream; key may be "".
func follow(addr, key string, header ...string) (*websocket.Conn, int, error) {
	h := http.Header{}
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	dialer := websocket.Dialer{HandshakeTimeout: harness.Patience}
	conn, answer, err := dialer.Dial("ws://"+addr+"/v1/ws", h)
	if answer != nil {
		return conn, answer.StatusCode, err
	}
	return conn, 0, err
}

// strangersStream lets both tenants append while one of them follows the stream, which must deliver
// only its own records.
func strangersStream(r *harness.Run, acme, globex *tenant) error {
	if _, status, err := follow(acme.Addr, acme.deleted); err == nil || status != http.StatusUnauthorized {
		r.Failf("the stream answers %d to a deleted key", status)
	}
	conn, _, err := follow(acme.Addr, globex.key)
	if err != nil {
		return fmt.Errorf("follow the stream: %w", err)
	}
	defer conn.Close()
	attest := `{"agentId":"deploy-bot","actionType":"stream","payload":0}`
	for _, who := range []*tenant{acme, globex, acme, globex} {
		if err := who.ask(201, "POST", "/v1/attest", attest, nil); err != nil {
			return err
		}
	}
	for range 2 {
		if err := conn.SetReadDeadline(time.Now().Add(harness.Patience)); err != nil {
			return err
		}
		var message struct {
			Record struct{ Payload struct{ CompanyID string } }
			Valid  bool
		}
		_, text, err := conn.ReadMessage()
		if err == nil {
			err = json.Unmarshal(text, &message)
		}
		if err != nil {
			return fmt.Errorf("a message of the stream: %w", err)
		}
		if message.Record.Payload.CompanyID != "globex" || !message.Valid {
			r.Failf("the stream of globex brings %.300s", text)
		}
	}
	return nil
}
