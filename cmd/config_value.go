package cmd

import (
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
)

// checkValue checks a value for a flag that has another one.
func checkValue(f *pflag.Flag, value any) error {
	_, err := asText(f, value)
	return err
}

// assign sets a flag to a value of a configuration file.
func assign(f *pflag.Flag, value any) error {
	text, err := asText(f, value)
	if err != nil {
		return err
	}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.Replace(text)
	}
	if err := f.Value.Set(text[0]); err != nil {
		return fmt.Errorf("%q is not a valid value for %s", text[0], f.Name)
	}
	return nil
}

// asText returns a value of a configuration file as it would be typed, or as the elements of a
// list. Its type must be that of the flag.
func asText(f *pflag.Flag, value any) ([]string, error) {
	texts, err := textsOf(f, value)
	for _, text := range texts {
		if len(text) > maxConfigValue { // errors repeat values
			return nil, fmt.Errorf("%s has more than %d bytes", f.Name, maxConfigValue)
		}
	}
	return texts, err
}

func textsOf(f *pflag.Flag, value any) ([]string, error) {
	wrong := func(want string) ([]string, error) {
		return nil, fmt.Errorf("%s must be %s, and not %s", f.Name, want, kindOf(value))
	}
	switch f.Value.Type() {
	case "string", "duration":
		if text, ok := value.(string); ok {
			return []string{text}, nil
		}
		return wrong("a string in quotes")
	case "bool":
		if truth, ok := value.(bool); ok {
			return []string{strconv.FormatBool(truth)}, nil
		}
		return wrong("true or false")
	case "int", "int64":
		if number, ok := value.(int64); ok {
			return []string{strconv.FormatInt(number, 10)}, nil
		}
		return wrong("an integer")
	case "stringSlice":
		list, ok := value.([]any)
		if ok && len(list) == 0 {
			return nil, nil
		}
		texts := make([]string, len(list))
		for i := range list {
			if texts[i], ok = list[i].(string); !ok {
				break
			}
		}
		if !ok {
			return wrong(`a list of strings, as in ["a", "b"]`)
		}
		return texts, nil
	}
	return wrong("set elsewhere")
}

// kindOf names the type of a value in a configuration file.
func kindOf(value any) string {
	switch value.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case int64:
		return "an integer"
	case float64:
		return "a number with a fraction"
	case []any:
		return "this list"
	case map[string]any:
		return "a table"
	}
	return "a time"
}
