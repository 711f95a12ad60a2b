package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"attestd/chain"
)

// Agent is a registered agent.
type Agent struct {
	ID           string
	RegisteredAt string
	Metadata     json.RawMessage // nil when not set
}

// RegisterAgent registers an agent or replaces the metadata and time of one that is.
func (s *Store) RegisterAgent(ctx context.Context, c *Company, id string, metadata json.RawMessage, now time.Time) (Agent, error) {
	a := Agent{ID: id, RegisteredAt: chain.FormatTime(now), Metadata: metadata}
	defer s.agents.forget(owned{c.Chain, id})
	err := s.write(ctx, func(w *conn) error {
		_, err := w.exec(`INSERT INTO agent (company, agent_id, registered_at, metadata) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
			SET registered_at = excluded.registered_at, metadata = excluded.metadata`,
			c.Chain, a.ID, a.RegisteredAt, textOrNull(metadata))
		return err
	})
	if err != nil {
		return Agent{}, fmt.Errorf("register agent %q: %w", id, err)
	}
	return a, nil
}

// Agent finds an agent of c; ErrNotFound. Answers are cached; a registration takes effect before RegisterAgent returns.
func (s *Store) Agent(ctx context.Context, c *Company, id string, now time.Time) (Agent, error) {
	a, err := lookup(&s.agents, owned{c.Chain, id}, now, func() (Agent, error) {
		a := Agent{ID: id}
		var metadata sql.NullString
		err := s.read(ctx, func(r *conn) error {
			return r.one([]any{&a.RegisteredAt, &metadata},
				`SELECT registered_at, metadata FROM agent WHERE company = ? AND agent_id = ?`, c.Chain, id)
		})
		a.Metadata = rawOrNil(metadata)
		return a, err
	})
	if err != nil {
		return Agent{}, fmt.Errorf("agent %q: %w", id, err)
	}
	return a, nil
}

// Agents returns those after the given ID, ordered by ID.
func (s *Store) Agents(ctx context.Context, c *Company, after string, limit int) ([]Agent, error) {
	var page []Agent
	err := s.read(ctx, func(r *conn) error {
		return r.each(func(rows *sql.Rows) error {
			var a Agent
			var metadata sql.NullString
			err := rows.Scan(&a.ID, &a.RegisteredAt, &metadata)
			a.Metadata = rawOrNil(metadata)
			page = append(page, a)
			return err
		}, `SELECT agent_id, registered_at, metadata FROM agent WHERE company = ? AND agent_id > ? ORDER BY agent_id LIMIT ?`,
			c.Chain, after, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("list agents: %w", err)
	}
	return page, nil
}
