package service

import (
	"context"
	"errors"

	"attestd/service/telemetry"
	"attestd/store"
)

// AppendTelemetry appends the records of the items of an export that are not refused, all or none
// of each MaxItems, and refuses those that may not be recorded. Without an error, every item that
// is not refused is recorded, be it by an earlier export. A span whose IDs name another span
// becomes a record of its own: IDs that come twice must hide nothing.
func (a *Attestations) AppendTelemetry(ctx context.Context, by store.Caller, items []telemetry.Item, o telemetry.Options) error {
	recorder := telemetry.NewRecorder(o)
	part := make([]derived, 0, min(len(items), MaxItems))
	send := func() error {
		_, err := a.appendDerived(ctx, by, part, func(d *derived, refused error) error {
			var reason *Error
			if !errors.As(refused, &reason) {
				return refused
			}
			items[d.place].Refused = telemetryRefusal(reason)
			return nil
		})
		part = part[:0]
		return err
	}
	for i := range items {
		item := &items[i]
		if item.Refused != "" {
			continue
		}
		r := recorder.Record(item)
		part = append(part, derived{
			Attestation: Attestation{AgentID: item.Agent, ActionType: r.ActionType, Payload: r.Payload, Key: derivedKeyAt(by, r.UnixNano, r.Key)},
			other:       func() string { return derivedKeyAt(by, r.UnixNano, r.OtherKey()) },
			place:       i,
		})
		if len(part) == MaxItems {
			if err := send(); err != nil {
				return err
			}
		}
	}
	return send()
}

// telemetryRefusal says why an item may not be recorded. Telemetry has no statement that could be
// sent.
func telemetryRefusal(reason *Error) string {
	if reason.Code == "AGENT_KEY_REQUIRED" {
		return "the agent must sign what it does with its own key (AGENT_KEY_REQUIRED), and telemetry is not signed"
	}
	return reason.Message
}
