package config

import (
	"fmt"
	"iter"
	"reflect"

	"weir/gate"
)

// Gates returns every gate with the path at which its options stand, such as http[0]. They are the fields of Config
// whose type is gate.Options.
func (c *Config) Gates() iter.Seq2[string, gate.Options] {
	return func(yield func(string, gate.Options) bool) {
		v := reflect.ValueOf(*c)
		for _, f := range fieldsOf(v.Type()) {
			switch field := v.Field(f.index); field.Kind() {
			case reflect.Slice:
				for i := range field.Len() {
					o, ok := field.Index(i).Interface().(gate.Options)
					if ok && !yield(fmt.Sprintf("%s[%d]", f.name, i), o) {
						return
					}
				}
			case reflect.Pointer:
				if field.IsNil() {
					continue
				}
				if o, ok := field.Elem().Interface().(gate.Options); ok && !yield(f.name, o) {
					return
				}
			}
		}
	}
}

// Mechanism returns the mechanism of a throttle: its key, and its options. The mechanisms are the fields of Throttle
// that may be absent. It returns nothing where none is given.
func (t Throttle) Mechanism() (key string, options Options) {
	for key, o := range t.mechanisms() {
		if o != nil {
			return key, o
		}
	}
	return "", nil
}

// Options are those of a mechanism.
type Options interface{ Validate() error }

// mechanisms returns every mechanism that a throttle may have, with nil for those it has not.
func (t Throttle) mechanisms() iter.Seq2[string, Options] {
	return func(yield func(string, Options) bool) {
		v := reflect.ValueOf(t)
		for _, f := range fieldsOf(v.Type()) {
			if f.t.Kind() != reflect.Pointer {
				continue
			}
			var o Options
			if !v.Field(f.index).IsNil() {
				o = v.Field(f.index).Interface().(Options)
			}
			if !yield(f.name, o) {
				return
			}
		}
	}
}

// complete gives every field of a struct, and every element of its lists, that has a method WithDefaults what that
// returns. Lists and what pointers point to are copied.
func complete(s reflect.Value) {
	for _, f := range fieldsOf(s.Type()) {
		switch field := s.Field(f.index); field.Kind() {
		case reflect.Slice:
			list := reflect.MakeSlice(f.t, field.Len(), field.Len())
			if _, ok := list.Type().Elem().MethodByName("WithDefaults"); !ok {
				continue
			}
			for i := range field.Len() {
				list.Index(i).Set(completed(field.Index(i)))
			}
			field.Set(list)
		case reflect.Pointer:
			if !field.IsNil() {
				full := reflect.New(f.t.Elem())
				full.Elem().Set(completed(field.Elem()))
				field.Set(full)
			}
		case reflect.Struct:
			field.Set(completed(field))
		}
	}
}

// completed returns a value with everything filled in that its method WithDefaults knows.
func completed(v reflect.Value) reflect.Value {
	if m := v.MethodByName("WithDefaults"); m.IsValid() {
		return m.Call(nil)[0]
	}
	return v
}
