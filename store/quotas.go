package store

import (
	"errors"
	"fmt"
	"time"

	"attestd/store/db"
)

// RegistrationQuotaError means that as many companies have registered as may.
type RegistrationQuotaError struct {
	Most   int64
	Within time.Duration // in which they have; 0 for ever
	Again  time.Time     // when the next one may; zero if Within is 0
}

func (e *RegistrationQuotaError) Error() string {
	if e.Within == 0 {
		return fmt.Sprintf("%v: %d companies may register", ErrQuota, e.Most)
	}
	return fmt.Sprintf("%v: %d companies may register within %v", ErrQuota, e.Most, e.Within)
}

func (e *RegistrationQuotaError) Unwrap() error { return ErrQuota }

const registrationDay = 24 * time.Hour

// mayRegister refuses another company beyond the quotas. Companies are numbered in the order of
// their registration, so it reads one row.
func (s Companies) mayRegister(w *db.Conn, now time.Time) error {
	q := s.db.WriterQuotas()
	if q.Companies == 0 && q.CompaniesPerDay == 0 {
		return nil
	}
	var has int64
	if err := w.One([]any{&has}, `SELECT coalesce(max(id), 0) FROM company WHERE id < ?`, int64(db.Installation)); err != nil {
		return err
	}
	if q.Companies > 0 && has >= q.Companies {
		return &RegistrationQuotaError{Most: q.Companies}
	}
	if q.CompaniesPerDay == 0 || has < q.CompaniesPerDay {
		return nil
	}
	var text string
	err := w.One([]any{&text}, `SELECT registered_at FROM company WHERE id = ?`, has-q.CompaniesPerDay+1)
	if errors.Is(err, db.ErrNotFound) {
		return nil // it was deleted externally, which verify finds
	}
	if err != nil {
		return err
	}
	registered, err := db.ParseTime(text)
	if again := registered.Add(registrationDay); err == nil && now.Before(again) {
		return &RegistrationQuotaError{q.CompaniesPerDay, registrationDay, again}
	}
	return err
}
