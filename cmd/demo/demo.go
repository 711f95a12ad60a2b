// Package demo plays the script of the demonstration (web.Demo) on a server: it makes a company
// whose records tell of a week of five agents. The console plays the same script in a browser
// (web/console/core/demo.js).
//
// The log is honest about time: each record has the time at which the server appended it. When
// something happened in the story is in the payload, as at, in the last week from Monday to
// Friday that is over.
package demo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"attestd/chain"
	"attestd/crypto/jose"
	"attestd/internal/sleep"
	"attestd/sdk/attestd"
	"attestd/web"
)

const (
	maxAnswer    = 1 << 20 // bytes
	pollInterval = 100 * time.Millisecond
	demos        = 20 // names of companies that are tried
	askedTimes   = 50
	quarter      = 90 * 24 * time.Hour
)

// Company is what was made.
type Company struct {
	ID          string
	APIKey      string
	Fingerprint string            // of its signing key, as the server answered then
	AgentKeys   map[string]string // thumbprints, by agent
}

// step is a step of the script, as web.Demo describes it.
type step struct {
	Does      string           `json:"does"`
	Call      string           `json:"call"`
	As        *string          `json:"as"`
	Body      *json.RawMessage `json:"body"`
	Keep      [][2]string      `json:"keep"`
	Until     string           `json:"until"`
	Key       string           `json:"key"`
	Enrol     string           `json:"enrol"`
	Assertion *assertion       `json:"assertion"`
	Cosign    bool             `json:"cosign"`
}

// player plays the script.
type player struct {
	base    string
	now     time.Time
	values  map[string]string // values of earlier steps, by the names that the script has for them
	keys    map[string]*jose.PrivateKey
	agents  map[string]*agent // that have a key of their own
	witness *demoWitness
}

// ErrName means that no company can be registered under the name: it has not the form, or it is
// taken.
var ErrName = errors.New("choose another name with --company")

// Play registers the company id on the server at base, and fills it. If id is "", the company has
// the first name of demo, demo-2, demo-3 and so on that no company has. progress receives what
// each step does.
func Play(ctx context.Context, base, id string, now time.Time, progress func(does string)) (Company, error) {
	var script []step
	if err := json.Unmarshal(web.Demo(), &script); err != nil {
		return Company{}, err
	}
	p := &player{
		base: base, now: now, keys: map[string]*jose.PrivateKey{}, agents: map[string]*agent{},
		values: map[string]string{"inAQuarter": chain.FormatTime(now.Add(quarter))},
	}
	for i, s := range script {
		progress(s.Does)
		var err error
		if i == 0 {
			err = p.register(ctx, s, id)
		} else {
			err = p.play(ctx, s)
		}
		if err != nil {
			return Company{}, fmt.Errorf("the step that %s: %w", s.Does, err)
		}
	}
	made := Company{ID: p.values["company"], APIKey: p.values["key"], Fingerprint: p.values["fingerprint"], AgentKeys: map[string]string{}}
	for name, a := range p.agents {
		made.AgentKeys[name] = a.identity.Key().Thumbprint()
	}
	return made, nil
}

// register plays the first step, under the first name that is free.
func (p *player) register(ctx context.Context, s step, id string) error {
	for n := 1; ; n++ {
		p.values["company"] = cmp.Or(id, demoName(n))
		if err := p.play(ctx, s); id != "" || n == demos || !errors.Is(err, ErrName) {
			return err
		}
	}
}

func demoName(n int) string {
	if n == 1 {
		return "demo"
	}
	return fmt.Sprint("demo-", n)
}

func (p *player) play(ctx context.Context, s step) error {
	switch {
	case s.Key != "":
		return p.makeKey(s.Key)
	case s.Enrol != "":
		return p.enrol(ctx, s.Enrol)
	case s.Assertion != nil:
		return p.assert(ctx, *s.Assertion)
	case s.Cosign:
		return p.cosign(ctx)
	}
	return p.call(ctx, s)
}

// call sends a request, and keeps what the script asks for of the answer.
func (p *player) call(ctx context.Context, s step) error {
	method, path, _ := strings.Cut(p.filled(s.Call, nil), " ")
	var body []byte
	if s.Body != nil {
		var err error
		if body, err = p.sign(ctx, []byte(p.filled(string(*s.Body), inJSON))); err != nil {
			return err
		}
	}
	credential := p.values["key"]
	if s.As != nil {
		credential = p.values[*s.As]
	}
	for range askedTimes {
		members, err := p.send(ctx, method, path, body, credential)
		if err != nil {
			return err
		}
		if s.Until == "" {
			return p.storeValues(s.Keep, members)
		}
		var found []json.RawMessage
		if json.Unmarshal(members[s.Until], &found) == nil && len(found) > 0 {
			return nil
		}
		if err := sleep.For(ctx, pollInterval); err != nil {
			return err
		}
	}
	return nil // a busy server will find it later
}

func (p *player) storeValues(names [][2]string, members map[string]json.RawMessage) error {
	for _, pair := range names {
		name, member := pair[0], pair[1]
		var value string
		if json.Unmarshal(members[member], &value) != nil || value == "" {
			return fmt.Errorf("the answer has no %s", member)
		}
		p.values[name] = value
	}
	return nil
}

// send sends a request and returns the members of the answer.
func (p *player) send(ctx context.Context, method, path string, body []byte, credential string) (map[string]json.RawMessage, error) {
	request, err := http.NewRequestWithContext(ctx, method, p.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if credential != "" {
		request.Header.Set("Authorization", "Bearer "+credential)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, fmt.Errorf("status %d, and an answer that is no object of JSON: is this an attestd server?", answer.StatusCode)
	}
	if answer.StatusCode < 300 {
		return members, nil
	}
	var why, more string
	_ = json.Unmarshal(members["error"], &why)
	if json.Unmarshal(members["error_description"], &more) == nil && more != "" { // RFC 6749 §5.2
		why += ": " + more
	}
	registers := method+" "+path == "POST /v1/companies"
	if registers && (answer.StatusCode == http.StatusConflict || answer.StatusCode == http.StatusBadRequest) {
		return nil, fmt.Errorf("%s; %w", why, ErrName)
	}
	return nil, fmt.Errorf("status %d: %s", answer.StatusCode, why)
}

// client is a client of the SDK with the company's API key.
func (p *player) client() (*attestd.Client, error) {
	return attestd.New(attestd.Config{URL: p.base, Credential: attestd.Key(p.values["key"])})
}

var (
	placeholder = regexp.MustCompile(`\{[A-Za-z]+( [0-2][0-9]:[0-5][0-9])?\}`)
	days        = []string{"Mon", "Tue", "Wed", "Thu", "Fri"}
)

// filled returns a text with values in place of their names: {name} is one that was stored, and
// {Mon 09:12} a time of the week. escape is how a value is written there.
func (p *player) filled(text string, escape func(string) string) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		value, ok := p.values[found[1:len(found)-1]]
		if day, clock, isTime := strings.Cut(found[1:len(found)-1], " "); isTime {
			value, ok = weekTime(p.now, day, clock)
		}
		switch {
		case !ok:
			return found
		case escape == nil:
			return value
		}
		return escape(value)
	})
}

// inJSON is how a value is written inside a string of JSON.
func inJSON(value string) string {
	quoted, _ := json.Marshal(value) // never fails for a string
	return string(quoted[1 : len(quoted)-1])
}

// weekTime is a time of the last week from Monday to Friday of which the Friday is over, in UTC.
func weekTime(now time.Time, day, clock string) (string, bool) {
	at, err := time.Parse("15:04", clock)
	if err != nil {
		return "", false
	}
	today := now.UTC().Truncate(24 * time.Hour)
	friday := today.AddDate(0, 0, -1)
	for friday.Weekday() != time.Friday {
		friday = friday.AddDate(0, 0, -1)
	}
	for i, name := range days {
		if name == day {
			of := friday.AddDate(0, 0, i-len(days)+1)
			return chain.FormatTime(of.Add(time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute)), true
		}
	}
	return "", false
}
