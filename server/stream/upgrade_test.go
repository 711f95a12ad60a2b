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
		change  http.Header // "" takes away
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

func TestBearerProtocol(t *testing.T) {
	t.Parallel()
	_, url := startHub(t, func(bool) {})
	for _, tt := range []struct {
		offered    []string // lines
		credential string
		ok         bool
	}{
		{nil, "", false},
		{[]string{"attestd.bearer, svc_a-b_c"}, "svc_a-b_c", true},
		{[]string{"attestd.bearer,svc_a"}, "svc_a", true},
		{[]string{"attestd.bearer", "svc_a"}, "svc_a", true},
		{[]string{"chat, attestd.bearer, svc_a, more"}, "svc_a", true},
		{[]string{"attestd.bearer"}, "", true},
		{[]string{"chat, svc_a"}, "", false},
		{[]string{"attestd.bearers, svc_a"}, "", false},
	} {
		r := &http.Request{Header: http.Header{"Sec-Websocket-Protocol": tt.offered}}
		if credential, ok := BearerProtocol(r); credential != tt.credential || ok != tt.ok {
			t.Errorf("%q: %q, %v; want %q, %v", tt.offered, credential, ok, tt.credential, tt.ok)
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
