package test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"attestd/chain"
	"attestd/crypto/seal"
	"attestd/internal/must"
	"attestd/store"
)

// serveAcme starts the server, and the company acme does three actions.
func (h *host) serveAcme() {
	h.Helper()
	h.start()
	h.client = h.server.register(h.T, "acme")
	h.client.call(h.T, http.StatusCreated, "POST", "/v1/agents/register", `{"agentId":"bot"}`, nil)
	h.records(3)
	h.run("export ATTESTD_KEY=" + h.client.key)
}

func (h *host) records(n int) {
	h.Helper()
	for i := range n {
		h.client.call(h.T, http.StatusCreated, "POST", "/v1/attest", fmt.Sprintf(`{"agentId":"bot","actionType":"deploy","payload":{"n":%d}}`, i), nil)
	}
}

// standbyIs has the page's standby mean that of the cluster.
func (h *host) standbyIs() { h.also["postgres://postgres@db2/postgres"] = h.cluster.Standby() }

// clear removes the database and all files next to it.
func (h *host) clear() {
	h.Helper()
	must.OK(h.T, os.RemoveAll(h.path("/var/lib/attestd")))
	must.OK(h.T, os.Mkdir(h.path("/var/lib/attestd"), 0o700))
	h.run("cd " + h.path("/var/lib/attestd"))
}

// set adds lines to the settings of the service.
func (h *host) set(lines ...string) {
	h.Helper()
	name := h.path("/etc/default/attestd")
	text, err := os.ReadFile(name)
	if err != nil {
		text = []byte("ATTESTD_RATE_LIMITS=off\n")
	}
	must.OK(h.T, os.WriteFile(name, []byte(string(text)+strings.Join(lines, "\n")+"\n"), 0o600))
}

func (h *host) kill() {
	h.Helper()
	must.OK(h.T, h.server.kill())
	h.log += h.server.log.String()
	h.server = nil
}

// writeAt makes the database with a record that a server wrote whose clock showed a time.
func (h *host) writeAt(at time.Time) {
	h.Helper()
	schema, err := os.ReadFile("../schema.sql")
	must.OK(h.T, err)
	text, err := os.ReadFile(h.path("/etc/attestd/master.key"))
	must.OK(h.T, err)
	master, err := seal.ParseMaster(text)
	must.OK(h.T, err)
	s, err := store.Open(h.Context(), h.path(databaseFile), string(schema), store.Options{Master: &master})
	must.OK(h.T, err)
	go s.Run(h.Context(), store.RunOptions{Now: func() time.Time { return at }})
	acme, made, err := s.Companies.Create(h.Context(), "acme", nil, at)
	must.OK(h.T, err)
	payload := []byte(`{"actionType":"deploy","agentId":"bot","companyId":"acme","payload":0}`)
	_, err = s.Append(h.Context(), chain.Draft{Chain: acme.Chain, Payload: payload, Canonical: payload})
	must.OK(h.T, err)
	must.OK(h.T, s.Close())
	h.run("export ATTESTD_KEY=" + made.Key)
}
