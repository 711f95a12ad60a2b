package decide

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cedar-policy/cedar-go/types"

	"attestd/chain/action"
	"attestd/crypto/strictjson"
)

// The limits of arguments. maxElements bounds sets, because a stranger can choose elements that
// collide in Cedar's sets.
const (
	MaxArguments   = action.MaxDecided
	maxDepth       = 64       // open brackets
	maxElements    = 200      // of an array
	maxDropped     = 500      // JSON Pointers
	maxDroppedSize = 64 << 10 // bytes of all of them
)

// Arguments makes the record that policies see as context.arguments of the arguments of a call, and
// names what the record leaves out by JSON Pointers, sorted. "" is the arguments as a whole.
//
//	a string, true, false      as they are
//	a number                   Long if it is whole and within 64 bits, however it is spelt (1.0, 1e2,
//	                           -0); decimal if it has at most four decimals and Cedar's decimal
//	                           carries it; others are left out
//	an array                   a set: order and count are lost; of more than 200 elements left out
//	an object                  a record
//	null                       no member; as an element of an array it is left out
//	a member whose name begins with __ is left out
//
// All of it is left out where it is no object, has more than 64 KiB, nests deeper than 64, is no
// strict JSON (package strictjson: duplicate members, lone surrogates), or where more than 500
// parts, or pointers of more than 64 KiB, would have to be named. Null, and nothing, are no
// arguments: an empty record, and nothing is left out.
//
// sdk/python/attestd/_cedar.py and web/console/lib/cedar_context.js are the same; testdata/
// arguments.json holds all three.
func Arguments(text []byte) (types.Record, []string) {
	record, _, dropped, _ := mapArguments(text)
	return record, dropped
}

// member is a member of the arguments.
type member struct {
	name  string
	value types.Value
	list  []string // an array of strings as it is, since value has no order
}

// mapArguments returns the top-level members also by themselves, sorted by name. Of what is
// dropped, hidden may hold a command, a path or a URL: it is no number and no null.
func mapArguments(text []byte) (record types.Record, members []member, dropped, hidden []string) {
	whole := []string{""}
	if len(text) == 0 {
		return record, nil, nil, nil
	}
	if len(text) > MaxArguments {
		return record, nil, whole, whole
	}
	m := mapper{r: readers.Get().(*strictjson.Reader)}
	m.r.Open(text)
	defer func() {
		m.r.Close()
		readers.Put(m.r)
	}()
	kind := m.r.Kind()
	value, ok, err := m.value(0)
	if err == nil {
		err = m.r.End()
	}
	switch {
	case err == nil && kind == 'n':
		return record, nil, nil, nil
	case err != nil || kind != '{' || !ok:
		return record, nil, whole, whole
	}
	record = value.(types.Record)
	for name, value := range record.All() {
		members = append(members, member{string(name), value, m.lists[string(name)]})
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	slices.Sort(m.dropped)
	return record, members, m.dropped, m.hidden
}

var readers = sync.Pool{New: func() any { return strictjson.NewReader() }}

// errWhole leaves out the arguments as a whole.
var errWhole = errors.New("the arguments cannot be carried")

type mapper struct {
	r       *strictjson.Reader
	path    []string // of the value that is read, escaped
	dropped []string
	hidden  []string
	size    int // of dropped
	muted   int // open values that are left out already
	lists   map[string][]string
}

// drop names the value that was read last.
func (m *mapper) drop() error {
	if m.muted > 0 {
		return nil
	}
	size := 0
	for _, name := range m.path {
		size += 1 + len(name)
	}
	m.size += size
	if len(m.dropped) == maxDropped || m.size > maxDroppedSize {
		return errWhole
	}
	m.dropped = append(m.dropped, "/"+strings.Join(m.path, "/"))
	return nil
}

// hide notes that the value that was dropped last may hold more than a number.
func (m *mapper) hide() {
	if m.muted == 0 {
		m.hidden = append(m.hidden, m.dropped[len(m.dropped)-1])
	}
}

// value reads the next value. It is not ok where there is nothing to put into the record.
func (m *mapper) value(depth int) (v types.Value, ok bool, err error) {
	switch m.r.Kind() {
	case '{':
		if depth == maxDepth {
			return nil, false, errWhole
		}
		return m.object(depth + 1)
	case '[':
		if depth == maxDepth {
			return nil, false, errWhole
		}
		return m.array(depth + 1)
	}
	raw, err := m.r.Value()
	if err != nil {
		return nil, false, err
	}
	switch raw[0] {
	case 'n':
		return nil, false, nil
	case 't', 'f':
		return types.Boolean(raw[0] == 't'), true, nil
	case '"':
		return types.String(strictjson.Unquote(raw)), true, nil
	}
	if v, ok = number(string(raw)); !ok {
		err = m.drop()
	}
	return v, ok, err
}

func (m *mapper) object(depth int) (types.Value, bool, error) {
	if err := m.r.Bracket(); err != nil {
		return nil, false, err
	}
	record := types.RecordMap{}
	for m.r.Kind() != '}' {
		quoted, err := m.r.Value()
		if err != nil {
			return nil, false, err
		}
		name := string(strictjson.Unquote(quoted))
		m.path = append(m.path, escapePointer(name))
		reserved := strings.HasPrefix(name, "__")
		if reserved {
			if err := m.drop(); err != nil {
				return nil, false, err
			}
			m.hide()
			m.muted++
		}
		value, ok, err := m.value(depth)
		if err != nil {
			return nil, false, err
		}
		if reserved {
			m.muted--
		} else if ok {
			record[types.String(name)] = value
		}
		m.path = m.path[:len(m.path)-1]
	}
	return types.NewRecord(record), true, m.r.Bracket()
}

func (m *mapper) array(depth int) (types.Value, bool, error) {
	if err := m.r.Bracket(); err != nil {
		return nil, false, err
	}
	var elements []types.Value
	dropped, hidden, size := len(m.dropped), len(m.hidden), m.size
	n := 0
	for ; m.r.Kind() != ']'; n++ {
		if n == maxElements {
			m.muted++
		}
		m.path = append(m.path, strconv.Itoa(n))
		isNull := m.r.Kind() == 'n'
		value, ok, err := m.value(depth)
		if err == nil && isNull {
			err = m.drop()
		}
		if err != nil {
			return nil, false, err
		}
		if ok && n < maxElements {
			elements = append(elements, value)
		}
		m.path = m.path[:len(m.path)-1]
	}
	if n > maxElements {
		m.muted--
		m.dropped, m.hidden, m.size = m.dropped[:dropped], m.hidden[:hidden], size
		if err := m.drop(); err != nil {
			return nil, false, err
		}
		m.hide()
		return nil, false, m.r.Bracket()
	}
	if depth == 2 {
		m.list(elements)
	}
	return types.NewSet(elements...), true, m.r.Bracket()
}

// list notes the strings of a top-level member in their order.
func (m *mapper) list(elements []types.Value) {
	list := make([]string, len(elements))
	for i, element := range elements {
		text, is := element.(types.String)
		if !is {
			return
		}
		list[i] = string(text)
	}
	if m.lists == nil {
		m.lists = map[string][]string{}
	}
	m.lists[unescapePointer(m.path[0])] = list
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

var pointerNames = strings.NewReplacer("~1", "/", "~0", "~")

func unescapePointer(name string) string { return pointerNames.Replace(name) }

func escapePointer(name string) string { return pointerEscapes.Replace(name) }

// number carries a number of JSON exactly, or not at all.
func number(text string) (types.Value, bool) {
	negative := text[0] == '-'
	mantissa, exponentText, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(text, "-")), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	significant := strings.TrimRight(digits, "0")
	if significant == "" {
		return types.Long(0), true
	}
	exponentDigits := strings.TrimLeft(strings.TrimLeft(exponentText, "+-"), "0")
	const most = 6 // digits of an exponent: no text is so long that its zeros make up for more
	if len(exponentDigits) > most {
		return nil, false
	}
	exponent, _ := strconv.Atoi("0" + exponentDigits)
	if strings.HasPrefix(exponentText, "-") {
		exponent = -exponent
	}
	exponent += len(digits) - len(significant) - len(fraction) // of significant
	const decimals = 4
	isLong := exponent >= 0
	if !isLong {
		exponent += decimals
	}
	const longest = 19 // digits of 2⁶³
	if exponent < 0 || len(significant)+exponent > longest {
		return nil, false
	}
	if negative {
		significant = "-" + significant
	}
	n, err := strconv.ParseInt(significant+strings.Repeat("0", exponent), 10, 64)
	if err != nil {
		return nil, false
	}
	if isLong {
		return types.Long(n), true
	}
	d, err := types.NewDecimal(n, -decimals)
	return d, err == nil
}
