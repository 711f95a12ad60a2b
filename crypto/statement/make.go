package statement

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/google/uuid"

	"attestd/crypto/jcs"
	"attestd/crypto/jose"
)

// maxDepth is how deep a payload may nest.
const maxDepth = 128

// HashAction returns the action_hash of an action. payload is JSON, in any spelling. The error is a
// *strictjson.Error for a payload that package jcs refuses.
func HashAction(actionType, agentID, companyID string, payload []byte) (string, error) {
	for _, s := range []string{actionType, agentID, companyID} {
		if !utf8.ValidString(s) {
			return "", errors.New("actionType, agentId and companyId must be valid UTF-8")
		}
	}
	canonical := make([]byte, 0, len(payload)+len(actionType)+len(agentID)+len(companyID)+64)
	canonical = jcs.AppendString(append(canonical, `{"actionType":`...), actionType)
	canonical = jcs.AppendString(append(canonical, `,"agentId":`...), agentID)
	canonical = jcs.AppendString(append(canonical, `,"companyId":`...), companyID)
	canonical, err := jcs.Append(append(canonical, `,"payload":`...), payload, maxDepth)
	if err != nil {
		return "", fmt.Errorf("payload: %w", err)
	}
	return HashCanonical(append(canonical, '}')), nil
}

// HashCanonical is HashAction of the RFC 8785 form of the four members.
func HashCanonical(action []byte) string {
	sum := sha256.Sum256(action)
	return hex.EncodeToString(sum[:])
}

// Make signs claims and returns the statement. With an ID of "" it makes one up, which begins with
// the time, because the service stores those of one time together: to send the same statement
// again, its bytes MUST be sent again. It refuses, with CodeMalformed, what Parse does. Every other
// error is the signer's, or that of the source of random bits.
func Make(ctx context.Context, s jose.Signer, c Claims) (*Statement, error) {
	if c.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		c.ID = id.String()
	}
	payload := c.append(nil)
	if _, err := readClaims(payload, s.Key().Thumbprint); err != nil {
		return nil, err
	}
	compact, err := jose.Sign(ctx, s, Type, payload)
	if err != nil {
		return nil, err
	}
	return Parse(compact)
}

// append appends the claims in JSON: those that are not "", false, nil or outside a session.
func (c *Claims) append(dst []byte) []byte {
	dst = jcs.AppendString(append(dst, `{"iss":`...), c.Issuer)
	dst = jcs.AppendString(append(dst, `,"aud":`...), c.Audience)
	if c.Log != "" {
		dst = jcs.AppendString(append(dst, `,"log":`...), c.Log)
	}
	dst = strconv.AppendInt(append(dst, `,"iat":`...), c.IssuedAt, 10)
	dst = jcs.AppendString(append(dst, `,"jti":`...), c.ID)
	dst = jcs.AppendString(append(dst, `,"action_hash":`...), c.ActionHash)
	if c.Delegation != "" {
		dst = jcs.AppendString(append(dst, `,"delegation":`...), c.Delegation)
	}
	if c.Session != "" {
		dst = jcs.AppendString(append(dst, `,"sid":`...), c.Session)
	}
	if c.Session != "" || c.Seq != 0 {
		dst = strconv.AppendInt(append(dst, `,"seq":`...), c.Seq, 10)
	}
	if c.Previous != "" {
		dst = jcs.AppendString(append(dst, `,"prev":`...), c.Previous)
	}
	if c.Refused != nil {
		dst = append(dst, `,"refused":[`...)
		for i, r := range c.Refused {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(append(dst, `{"seq":`...), r.Seq, 10)
			dst = jcs.AppendString(append(dst, `,"hash":`...), r.Hash)
			dst = append(jcs.AppendString(append(dst, `,"code":`...), r.Code), '}')
		}
		dst = append(dst, ']')
	}
	if c.Continues != nil {
		dst = jcs.AppendString(append(dst, `,"continues":{"sid":`...), c.Continues.Session)
		dst = jcs.AppendString(append(dst, `,"kid":`...), c.Continues.KeyID)
		dst = append(jcs.AppendString(append(dst, `,"hash":`...), c.Continues.Hash), '}')
	}
	if c.End {
		dst = append(dst, `,"end":true`...)
	}
	return append(dst, '}')
}
