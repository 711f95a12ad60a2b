package server

import (
	"errors"
	"net/http"

	"attestd/store"
)

func (s *Server) createKey(c *call) error {
	o, err := c.object()
	if err != nil {
		return err
	}
	label, err := o.optional("label")
	if err != nil {
		return err
	}
	if label != nil {
		if err := checkText("label", *label); err != nil {
			return err
		}
	}
	k, err := s.Store.CreateKey(c.Context(), c.company, label, c.now)
	if err != nil {
		return err
	}
	return c.secret(http.StatusCreated, struct {
		Key       string `json:"key"`
		CreatedAt string `json:"createdAt"`
	}{k.Key, k.CreatedAt})
}

func (s *Server) listKeys(c *call) error {
	found, err := s.Store.Keys(c.Context(), c.company)
	if err != nil {
		return err
	}
	return c.secret(http.StatusOK, map[string]any{"keys": list(found)})
}

func (s *Server) deleteKey(c *call) error {
	err := s.Store.DeleteKey(c.Context(), c.company, c.PathValue("key"))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return fail(http.StatusNotFound, "API key not found")
	case errors.Is(err, store.ErrLastKey):
		return &apiError{Status: http.StatusConflict, Code: "LAST_API_KEY", Message: "The last API key of a company cannot be deleted; create another one first"}
	case err != nil:
		return err
	}
	return c.json(http.StatusOK, map[string]bool{"deleted": true})
}

// list makes an empty list [] in JSON, never null.
func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}
