package httpapi

import (
	"net/http"
	"reflect"
)

// Read parses a call into request, a pointer to the struct of the form.
func (form *Form) Read(c *Call, request any) error {
	var members Object
	if form.HasBody || c.undeclared == Strict && c.ContentLength != 0 && c.Method != http.MethodGet &&
		c.Method != http.MethodHead {
		var err error
		if members, err = c.Members(form); err != nil {
			return err
		}
	}
	into := reflect.ValueOf(request).Elem()
	if form.requestField >= 0 {
		into.Field(form.requestField).Set(reflect.ValueOf(c.Request))
	}
	return form.Fill(c, members, into)
}

// Fill sets the fields of a request. c may be nil if all of them are members of the body.
func (form *Form) Fill(c *Call, members Object, into reflect.Value) error {
	for i := range form.Fields {
		f := &form.Fields[i]
		v := value{Field: f}
		switch f.From {
		case "json":
			v.json = members[f.Name]
		case "query":
			v.text, v.given = c.Query.Get(f.Name), c.Query.Has(f.Name)
		case "path":
			v.text, v.given = c.PathValue(f.Name), true
		case "header":
			v.text = c.Header.Get(f.Name)
			v.given = len(c.Header.Values(f.Name)) > 0
		}
		if err := f.check(v, into.Field(f.at)); err != nil {
			if err == errMissing {
				return form.MissingField(f)
			}
			return At(err, "/"+f.Name)
		}
	}
	return nil
}

// Members parses the body, which is a JSON object or empty, or a form if allowed, into its declared
// members.
func (c *Call) Members(form *Form) (Object, error) {
	raw, err := c.Read()
	if err != nil {
		return nil, err
	}
	if form.AcceptsForm && MediaType(c.Header) == FormEncoded {
		return form.parseForm(raw, c.undeclared)
	}
	return form.parseBody(raw, c.undeclared)
}
