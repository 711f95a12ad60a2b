package httpapi

import (
	"strings"

	"attestd/crypto/keys"
)

// GatewayHeader has the credential of a proxy that asks about the request of somebody else, whose
// own credentials are in the headers that they always are in.
const GatewayHeader = "X-Attestd-Authorization"

// authenticateGateway reads the credential of a proxy. Where the proxy is counts for nothing, and
// neither its certificate nor a cookie is one of its own.
func (c *Call) authenticateGateway() {
	sent := c.Header[GatewayHeader]
	if len(sent) != 1 {
		return
	}
	scheme, token, _ := strings.Cut(sent[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return
	}
	c.Bearer, c.claimed = strings.Trim(token, " "), true
	c.Hash = keys.HashSecret(c.Bearer)
	c.presumed, c.authErr = c.lookUp(c.receivedAt)
}
