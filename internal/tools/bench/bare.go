package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// bareMode is the hidden first argument that makes this program a bare server, a service without
// its work. It only reads the body of every POST and responds, as to a GET of what an issuer
// publishes, and writes to WebSocket clients.
const bareMode = "bare"

// startBare starts a bare server with given sizes of responses and stream messages.
func (b *bench) startBare(ctx context.Context, answerBytes, messageBytes int) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(ctx, exec.Command(self, bareMode, strconv.Itoa(answerBytes), strconv.Itoa(messageBytes)))
}

// runBare serves until its standard input ends, which it does when its parent process ends.
func runBare(answerBytes, messageBytes string) int {
	answer, err1 := strconv.Atoi(answerBytes)
	message, err2 := strconv.Atoi(messageBytes)
	listener, err3 := net.Listen("tcp", "127.0.0.1:0")
	if err1 != nil || err2 != nil || err3 != nil {
		fmt.Fprintln(os.Stderr, "bare server:", err1, err2, err3)
		return 1
	}
	caster := &caster{message: []byte(strings.Repeat("x", message))}
	body := []byte(strings.Repeat("x", answer))
	mux := http.NewServeMux()
	answers := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	}
	mux.HandleFunc("POST /", answers)
	mux.HandleFunc("GET /o/", answers)
	mux.HandleFunc("GET /v1/ws", caster.join)
	mux.HandleFunc("GET /clients", caster.count)
	go func() { _ = (&http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}).Serve(listener) }()
	fmt.Fprintf(os.Stderr, "bare server listens on http://%s\n", listener.Addr())
	caster.run(os.Stdin)
	return 0
}

// caster writes a message to all its clients for each byte that it reads. One goroutine per core
// writes to its share of the clients, without queues or wake-ups. It writes all pending messages to
// one client before it turns to the next, so that a client finds all of them when it wakes up. So
// the measured time is that of the writes.
type caster struct {
	message []byte
	mu      sync.Mutex
	clients []*websocket.Conn
}

func (c *caster) join(w http.ResponseWriter, r *http.Request) {
	var upgrader websocket.Upgrader
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	c.mu.Lock()
	c.clients = append(c.clients, conn)
	c.mu.Unlock()
	for err == nil { // until the client is gone
		_, _, err = conn.NextReader()
	}
}

func (c *caster) count(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(w, "%d", len(c.clients))
}

func (c *caster) run(trigger io.Reader) {
	shards := make([]chan *websocket.PreparedMessage, runtime.GOMAXPROCS(0))
	for i := range shards {
		shards[i] = make(chan *websocket.PreparedMessage, 4096)
		go c.write(shards[i], i, len(shards))
	}
	buf := make([]byte, 4096)
	for {
		n, err := trigger.Read(buf)
		for range n {
			m, prepareErr := websocket.NewPreparedMessage(websocket.TextMessage, c.message)
			if prepareErr != nil {
				return
			}
			for _, shard := range shards {
				shard <- m
			}
		}
		if err != nil {
			return
		}
	}
}

// write empties a queue for every step-th client from the first.
func (c *caster) write(queue chan *websocket.PreparedMessage, first, step int) {
	var gathered []*websocket.PreparedMessage
	for m := range queue {
		gathered = append(gathered[:0], m)
		for len(queue) > 0 {
			gathered = append(gathered, <-queue)
		}
		c.mu.Lock()
		clients := c.clients // all clients have joined before the first byte arrives
		c.mu.Unlock()
		for i := first; i < len(clients); i += step {
			for _, m := range gathered {
				_ = clients[i].WritePreparedMessage(m) // a client that has left is not needed
			}
		}
	}
}
