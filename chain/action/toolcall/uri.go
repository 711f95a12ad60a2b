package toolcall

import "strings"

// MaskURI returns the recorded form of a URI: its query and fragment, which often hold a token, are
// masked whole, and secrets elsewhere as in any text.
func (p Policy) MaskURI(uri string) string {
	uri = strings.ToValidUTF8(uri, "\ufffd")
	at := strings.IndexAny(uri, "?#")
	if at < 0 || at == len(uri)-1 {
		return p.MaskText(uri)
	}
	return p.MaskText(uri[:at]) + uri[at:at+1] + p.masked(uri[at+1:])
}
