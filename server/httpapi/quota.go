package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"attestd/chain"
	"attestd/store"
)

// suspended is the answer to a company that an operator has suspended.
func suspended() *Error {
	return &Error{Status: http.StatusForbidden, Code: "COMPANY_SUSPENDED",
		Message: "Forbidden: the operator of this service has suspended the company; what it has recorded stays readable, and nothing is recorded or issued before the operator resumes it"}
}

// quotaExceeded is the answer to what a quota has no room for. It says who can do what about it.
func quotaExceeded(err error) *Error {
	answer := &Error{Status: http.StatusInsufficientStorage, Code: "QUOTA_EXCEEDED", cause: err}
	var registration *store.RegistrationQuotaError
	var of *chain.QuotaError
	switch {
	case errors.As(err, &registration) && registration.Within > 0:
		answer.Message = fmt.Sprintf("Insufficient Storage: this service registers at most %d companies within 24 hours", registration.Most)
		wait := max(1, int64(time.Until(registration.Again)/time.Second)+1)
		return answer.With("Retry-After", strconv.FormatInt(wait, 10))
	case registration != nil:
		answer.Message = "Insufficient Storage: this service registers no more companies; its operator can raise --max-companies"
	case errors.As(err, &of) && !of.All:
		answer.Message = fmt.Sprintf("Insufficient Storage: a log of the company may have %d %s; nothing was written; the operator of this service can raise it with attestd company quota", of.Most, of.Of)
	default:
		answer.Message = "Insufficient Storage: the logs of all companies together have as much as the operator of this service allows; nothing was written"
	}
	return answer
}
