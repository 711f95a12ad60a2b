package stream

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

func TestHandshake(t *testing.T) {
	t.Parallel()
	h, url := startHub(t, func(bool) {})
	host := strings.TrimPrefix(url, "ws://")
	for _, tt := range []struct {
		name    string
		change  http.Header // "" removes
		status  int
		message string
	}{
		{"good", nil, 101, ""},
		{"no upgrade", http.Header{"Upgrade": {""}, "Connection": {""}}, 426, "Not a WebSocket handshake: this address"},
		{"another protocol", http.Header{"Upgrade": {"h2c"}}, 426, "Not a WebSocket handshake: this address"},
		{"old version", http.Header{"Sec-Websocket-Version": {"8"}}, 426, "Not a WebSocket handshake: Sec-WebSocket-Version must be 13"},
		{"no key", http.Header{"Sec-Websocket-Key": {""}}, 400, "Not a WebSocket handshake: 'Sec-WebSocket-Key'"},
	} {
		conn, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Host = host
		r.Header = http.Header{
			"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"websocket"},
			"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"AQIDBAUGBwgJCgsMDQ4PEA=="},
		}
		for name, v := range tt.change {
			r.Header[name] = v
			if v[0] == "" {
				r.Header.Del(name)
			}
		}
		status, header, body := exchange(t, conn, r, tt.status)
		if status != tt.status {
			t.Errorf("%s: status %d, want %d", tt.name, status, tt.status)
			continue
		}
		switch status {
		case http.StatusSwitchingProtocols:
			if header.Get("X-Request-Id") != "a" {
				t.Errorf("%s: the handler's headers are missing: %v", tt.name, header)
			}
		case http.StatusUpgradeRequired:
			if header.Get("Upgrade") != "websocket" {
				t.Errorf("%s: headers %v do not say what to upgrade to", tt.name, header)
			}
			fallthrough
		default:
			var answer map[string]string
			if err := json.Unmarshal(body, &answer); err != nil || !strings.HasPrefix(answer["error"], tt.message) {
				t.Errorf("%s: answer %s, want the error %q", tt.name, body, tt.message)
			}
		}
	}
	h.Close()
}

// exchange writes a request and reads its answer, and the body unless the connection is no longer
// HTTP.
func exchange(t *testing.T, conn net.Conn, r *http.Request, want int) (int, http.Header, []byte) {
	t.Helper()
	defer conn.Close()
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var body []byte
	if want != http.StatusSwitchingProtocols {
		if body, err = io.ReadAll(res.Body); err != nil {
			t.Fatal(err)
		}
	}
	return res.StatusCode, res.Header, body
}

func TestCredentialAsSubprotocol(t *testing.T) {
	t.Parallel()
	_, url := startHub(t, func(bool) {})
	for _, tt := range []struct {
		offered []string // lines
		offer   Offer
		ok      bool
	}{
		{nil, Offer{}, false},
		{[]string{"attestd.bearer, svc_a-b_c"}, Offer{Credential: "svc_a-b_c"}, true},
		{[]string{"attestd.bearer,svc_a"}, Offer{Credential: "svc_a"}, true},
		{[]string{"attestd.bearer", "svc_a"}, Offer{Credential: "svc_a"}, true},
		{[]string{"chat, attestd.bearer, svc_a, more"}, Offer{Credential: "svc_a"}, true},
		{[]string{"attestd.bearer"}, Offer{}, true},
		{[]string{"chat, svc_a"}, Offer{}, false},
		{[]string{"attestd.bearers, svc_a"}, Offer{}, false},
		{[]string{"attestd.bearer, svc_a, attestd.dpop, e.y.J"}, Offer{"svc_a", "e.y.J", true}, true},
		{[]string{"attestd.dpop, e.y.J", "attestd.bearer, svc_a"}, Offer{"svc_a", "e.y.J", true}, true},
		{[]string{"attestd.bearer, svc_a, attestd.dpop"}, Offer{"svc_a", "", true}, true},
		{[]string{"attestd.bearer, attestd.dpop, e.y.J"}, Offer{Credential: "attestd.dpop"}, true},
		{[]string{"attestd.bearer, svc_a, attestd.bearer, svc_b"}, Offer{}, true},
		{[]string{"attestd.bearer, svc_a, attestd.dpop, e.y.J, attestd.dpop, f.y.J"}, Offer{Proves: true}, true},
		{[]string{"attestd.dpop, e.y.J"}, Offer{Proof: "e.y.J", Proves: true}, false},
	} {
		r := &http.Request{Header: http.Header{"Sec-Websocket-Protocol": tt.offered}}
		if offer, ok := OfferOf(r); offer != tt.offer || ok != tt.ok {
			t.Errorf("%q: %+v, %v; want %+v, %v", tt.offered, offer, ok, tt.offer, tt.ok)
		}
		// Browsers drop a connection that does not select one of the protocols offered; the
		// credential is never sent back.
		conn, _, err := websocket.DefaultDialer.DialContext(t.Context(), url, r.Header)
		if err != nil {
			t.Fatal(err)
		}
		if selected := conn.Subprotocol(); (selected == bearerScheme) != tt.ok || !tt.ok && selected != "" {
			t.Errorf("%q: %q selected", tt.offered, selected)
		}
		_ = conn.Close()
	}
}

// Whatever is offered, a credential and a proof are texts that follow their names, which occur
// once, and no part of another offer becomes one.
func FuzzOfferOf(f *testing.F) {
	for _, line := range []string{"attestd.bearer, a, attestd.dpop, b", "attestd.dpop, b, attestd.bearer, a", "chat,attestd.bearer", "attestd.bearer, a, attestd.bearer, b", ",, ,attestd.bearer,,"} {
		f.Add(line, "")
		f.Add("chat", line)
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		offer, ok := OfferOf(&http.Request{Header: http.Header{"Sec-Websocket-Protocol": {one, two}}})
		var parts []string
		for p := range strings.SplitSeq(one+","+two, ",") {
			parts = append(parts, strings.TrimSpace(p))
		}
		for name, text := range map[string]string{bearerScheme: offer.Credential, proofScheme: offer.Proof} {
			behind := false
			for i := range parts {
				behind = behind || i > 0 && parts[i-1] == name && parts[i] == text
			}
			if text != "" && !behind {
				t.Errorf("%q is not offered behind %s", text, name)
			}
		}
		if !ok && offer.Credential != "" || !offer.Proves && offer.Proof != "" {
			t.Errorf("%+v, %v", offer, ok)
		}
	})
}
