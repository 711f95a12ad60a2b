package server

import (
	"context"
	"fmt"
	"strings"
)

// recordStart records the current settings in the control logs before the first response. If the
// database is not writable, the service runs nevertheless, because reads work; the next start
// records the settings.
func (s *Server) recordStart(ctx context.Context) {
	s.recording.Lock() // so that the newest settings are recorded last
	defer s.recording.Unlock()
	err := s.Store.Settings.RecordStart(ctx, s.trustSettings())
	if err != nil {
		s.Log.Warn("the current settings are not recorded in the control logs yet", "error", err)
	}
}

// trustSettings returns the settings that affect trust, by their names in control records.
func (s *Server) trustSettings() map[string]string {
	var witnesses []string
	for _, w := range s.Witnesses {
		witnesses = append(witnesses, w.Key().String())
	}
	now := s.live.Load()
	switchedOn := map[bool]string{true: "on", false: "off"}
	trust := map[string]string{
		"program":              "attestd/" + s.Version,
		"publicAddress":        s.BaseURL,
		"stream":               s.Stream.String(),
		"registrationToken":    now.Registration.Fingerprint(),
		"registration":         now.Registration.Mode.String(),
		"recoverEndpoint":      switchedOn[s.RecoverEndpoint],
		"acceptClock":          switchedOn[s.AcceptClock],
		"allowedOrigins":       strings.Join(now.AllowedOrigins, " "),
		"witnesses":            strings.Join(witnesses, " "),
		"webhooksAllowPrivate": switchedOn[s.WebhooksAllowPrivate], "federationAllowPrivate": switchedOn[s.FederationAllowPrivate],
		"cosignFor":      s.CosignFor,
		"limits":         now.Limits.String(),
		"bounds":         now.Bounds.String(),
		"quotas":         now.Quotas.String(),
		"retention":      s.Retention.String(),
		"trustedProxies": fmt.Sprint(s.TrustedProxies),
	}
	if s.exporter != nil {
		trust["export"] = s.exporter.String()
	}
	if s.TLS != nil && s.TLS.ClientCAs != nil {
		trust["clientCAs"] = s.TLS.ClientCAs.Fingerprint()
	}
	return trust
}

// Reload applies other settings to requests that come after it, and then records them in the
// control logs. It MUST be called while Run runs, and not concurrently.
func (s *Server) Reload(ctx context.Context, to Live) {
	s.live.Store(&to)
	s.api.Set(to.AllowedOrigins, to.AccessLog)
	s.api.Limiter.SetLimits(to.Limits)
	s.Store.SetQuotas(to.Quotas)
	s.recordStart(ctx)
}
