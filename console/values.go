package console

import (
	"encoding"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A field is a field of a struct that a call takes.
type field struct {
	name string
	at   []int
}

// fieldsOf returns the fields of a struct by their names in JSON. Those of embedded structs are its own.
func fieldsOf(t reflect.Type) (all []field) {
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			all = append(all, field{name, f.Index})
		}
	}
	return all
}

// address returns where a call is made, and the body if it has one.
func (c *Call) address(in any) (path string, body any, err error) {
	path = Prefix + c.Path
	if c.Method == http.MethodPost {
		return path, in, nil
	}
	values, err := valuesOf(in)
	if len(values) > 0 {
		path += "?" + values.Encode()
	}
	return path, nil, err
}

// valuesOf writes the fields of a struct as parameters. Fields with a zero value are left out.
func valuesOf(in any) (url.Values, error) {
	v := reflect.ValueOf(in).Elem()
	values := url.Values{}
	for _, f := range fieldsOf(v.Type()) {
		of := v.FieldByIndex(f.at)
		if of.IsZero() {
			continue
		}
		if of.Kind() == reflect.Slice {
			for i := range of.Len() {
				text, err := textOf(of.Index(i))
				if err != nil {
					return nil, err
				}
				values.Add(f.name, text)
			}
			continue
		}
		text, err := textOf(of)
		if err != nil {
			return nil, err
		}
		values.Set(f.name, text)
	}
	return values, nil
}

func textOf(v reflect.Value) (string, error) {
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, err := m.MarshalText()
		return string(text), err
	}
	switch v.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		return fmt.Sprint(v.Interface()), nil
	}
	return "", fmt.Errorf("a %s cannot be a parameter", v.Type())
}

// fill reads parameters, or the fields of a form, into a struct. It is as strict as the decoder of JSON bodies.
func fill(in any, values url.Values) error {
	v := reflect.ValueOf(in).Elem()
	fields := fieldsOf(v.Type())
	for name, texts := range values {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i < 0 {
			return Invalid(fmt.Sprintf("%.40q is not a parameter", name))
		}
		if err := fillField(v.FieldByIndex(fields[i].at), texts); err != nil {
			return Invalid(name + ": " + understood(err).Error())
		}
	}
	return nil
}

func fillField(v reflect.Value, texts []string) error {
	switch {
	case v.Kind() == reflect.Slice:
		for _, text := range texts {
			one := reflect.New(v.Type().Elem()).Elem()
			if err := fillOne(one, text); err != nil {
				return err
			}
			v.Set(reflect.Append(v, one))
		}
		return nil
	case v.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for _, text := range texts {
			key, value, found := strings.Cut(text, "=")
			if !found {
				return fmt.Errorf("%.80q is not name=value", text)
			}
			v.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(value))
		}
		return nil
	case len(texts) != 1:
		return fmt.Errorf("given %d times", len(texts))
	case v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Slice:
		v.Set(reflect.New(v.Type().Elem()))
		return fillField(v.Elem(), texts)
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return fillOne(v.Elem(), texts[0])
	}
	return fillOne(v, texts[0])
}

func fillOne(v reflect.Value, text string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if text == "" { // a field of a form that was left empty
			return nil
		}
		return u.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
		return nil
	case reflect.Bool:
		switch text {
		case "true", "on", "1":
			v.SetBool(true)
		case "false", "off", "0", "":
			v.SetBool(false)
		default:
			return fmt.Errorf("%.40q is neither true nor false", text)
		}
		return nil
	case reflect.Int, reflect.Int64:
		if text == "" {
			return nil
		}
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err != nil {
			return fmt.Errorf("%.40q is not a whole number", text)
		}
		v.SetInt(n)
		return nil
	}
	return fmt.Errorf("a %s cannot be given here", v.Type())
}
