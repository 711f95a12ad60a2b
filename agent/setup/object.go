package setup

import (
	"bytes"
	"errors"
	"slices"

	"attestd/crypto/strictjson"
)

// maxDepth is the maximum nesting depth of settings.
const maxDepth = 64

// object is a JSON object that preserves the order and spelling of its members.
type object struct{ members []member }

type member struct {
	name  string
	value []byte
}

func parse(text []byte) (o object, err error) {
	err = strictjson.EachMember(text, maxDepth, func(name, value []byte) { o.members = append(o.members, member{string(name), value}) })
	if errors.Is(err, strictjson.ErrKind) {
		err = errors.New("not a JSON object")
	}
	return o, err
}

func (o *object) get(name, absent string) []byte {
	for _, m := range o.members {
		if m.name == name {
			return m.value
		}
	}
	return []byte(absent)
}

func (o *object) set(name string, value []byte) {
	for i := range o.members {
		if o.members[i].name == name {
			o.members[i].value = value
			return
		}
	}
	o.members = append(o.members, member{name, value})
}

func (o *object) remove(name string) {
	o.members = slices.DeleteFunc(o.members, func(m member) bool { return m.name == name })
}

func (o *object) bytes() []byte {
	text := []byte{'{'}
	for i, m := range o.members {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(append(text, marshal(m.name)...), ':'), m.value...)
	}
	return append(text, '}')
}

func array(elements [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(elements, []byte(","))...), ']')
}
