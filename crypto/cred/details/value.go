package details

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"attestd/crypto/strictjson"
)

// value is a JSON value as far as it can be compared. Two scalars are equal if their values are.
type value struct {
	kind   byte   // ", 0 for a number, t, f or n; something else for what equals nothing
	text   string // of a string
	number number
}

func (v value) isScalar() bool { return strings.IndexByte(`"0tfn`, v.kind) >= 0 }

// notScalar is the kind of what no operator holds of.
const notScalar = '?'

// valueOf reads valid JSON without white space around it.
func valueOf(raw []byte) value {
	switch raw[0] {
	case '"':
		text, _ := strictjson.AsString(raw)
		return value{kind: '"', text: text}
	case 't', 'f', 'n':
		return value{kind: raw[0]}
	case '{', '[':
		return value{kind: notScalar}
	}
	n, ok := numberOf(string(raw))
	if !ok {
		return value{kind: notScalar}
	}
	return value{kind: '0', number: n}
}

// number is a decimal number, exact: ±0.digits × 10^exponent, where digits begin and end with none
// of 0. The zero value is zero.
type number struct {
	negative bool
	digits   string
	exponent int
}

// maxPower bounds the power of ten that a number other than zero is spelled with. One beyond is no
// number here: no operator holds of it.
const maxPower = 1_000_000

func numberOf(lexeme string) (number, bool) {
	mantissa, power := lexeme, "0"
	if e := strings.IndexAny(lexeme, "eE"); e >= 0 {
		mantissa, power = lexeme[:e], lexeme[e+1:]
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return number{}, true
	}
	exponent, err := strconv.Atoi(power)
	if err != nil || exponent > maxPower || exponent < -maxPower {
		return number{}, false
	}
	return number{negative, strings.TrimRight(digits, "0"), exponent + len(digits) - len(fraction)}, true
}

func (n number) sign() int {
	switch {
	case n.digits == "":
		return 0
	case n.negative:
		return -1
	}
	return 1
}

func (n number) compare(other number) int {
	if n.sign() != other.sign() || n.sign() == 0 {
		return cmp.Compare(n.sign(), other.sign())
	}
	return n.sign() * cmp.Or(cmp.Compare(n.exponent, other.exponent), strings.Compare(n.digits, other.digits))
}

// place is what is looked for below a place in the arguments.
type place struct {
	pointer  string
	isWanted bool
	below    map[string]*place // by member or index
}

// find returns the values that the entries ask for, by pointer. It reads the arguments once; ok is
// false unless they are strict JSON as a whole.
func find(arguments []byte, entries []entry) (values map[string]value, ok bool) {
	err := strictjson.EachMember(arguments, maxCallDeep, func(_, _ []byte) {})
	if err != nil && !errors.Is(err, strictjson.ErrKind) {
		return nil, false
	}
	root := &place{below: map[string]*place{}}
	for _, e := range entries {
		for pointer := range e.arguments {
			at := root
			for _, token := range strings.Split(pointer, "/")[1:] {
				name := unescape(token)
				if at.below[name] == nil {
					at.below[name] = &place{below: map[string]*place{}}
				}
				at = at.below[name]
			}
			at.pointer, at.isWanted = pointer, true
		}
	}
	r := strictjson.NewReader()
	r.Open(arguments)
	values = map[string]value{}
	return values, root.read(r, values) == nil
}

// read reads the value that is at the place.
func (p *place) read(r *strictjson.Reader, values map[string]value) error {
	open := r.Kind()
	if len(p.below) == 0 || open != '{' && open != '[' {
		raw, err := r.Value()
		if err == nil && p.isWanted {
			values[p.pointer] = valueOf(raw)
		}
		return err
	}
	if p.isWanted {
		values[p.pointer] = value{kind: notScalar}
	}
	if err := r.Bracket(); err != nil {
		return err
	}
	for index := 0; r.Kind() != '}' && r.Kind() != ']'; index++ {
		name := strconv.Itoa(index)
		if open == '{' {
			raw, err := r.Value()
			if err != nil {
				return err
			}
			name = string(strictjson.Unquote(raw))
		}
		next := p.below[name]
		if next == nil {
			next = &place{}
		}
		if err := next.read(r, values); err != nil {
			return err
		}
	}
	return r.Bracket()
}
