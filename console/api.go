package console

import (
	"cmp"
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"weir/console/access"
	"weir/store"
)

// An api serves the table of calls.
type api struct {
	backend  Backend
	calls    []*Call
	log      *slog.Logger
	stopping context.Context // ends when the server does
	copying  atomic.Bool     // a backup is being made
}

// newAPI returns the calls of a running weir.
func newAPI(b Backend, log *slog.Logger, stopping context.Context) *api {
	return &api{backend: b, calls: Calls(), log: log, stopping: stopping}
}

// handler serves all calls. identify says who asks, or answers the request itself and returns false.
func (a *api) handler(identify func(http.ResponseWriter, *http.Request, *Call) (*Request, bool)) http.Handler {
	mux := http.NewServeMux()
	for _, c := range a.calls {
		mux.HandleFunc(c.Method+" "+Prefix+c.Path, func(w http.ResponseWriter, r *http.Request) {
			q, ok := identify(w, r, c)
			if !ok {
				return
			}
			in, err := c.read(w, r)
			if err != nil {
				writeError(w, err)
				return
			}
			if c.Stream {
				q.streamTo(w, c, in)
				return
			}
			out, err := q.do(c, in)
			if err != nil {
				writeError(w, err)
				return
			}
			writeJSON(w, http.StatusOK, out)
		})
	}
	mux.HandleFunc("GET "+Prefix+"/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(openAPI)
	})
	mux.HandleFunc("/", a.unknown)
	return mux
}

// unknown answers requests that are no call.
func (a *api) unknown(w http.ResponseWriter, r *http.Request) {
	var allow []string
	for _, c := range a.calls {
		if Prefix+c.Path == r.URL.Path {
			allow = append(allow, c.Method)
		}
	}
	if len(allow) > 0 {
		w.Header().Set("Allow", strings.Join(allow, ", "))
		writeJSON(w, http.StatusMethodNotAllowed, &Error{Msg: "write " + strings.Join(allow, " or ")})
		return
	}
	writeJSON(w, http.StatusNotFound, &Error{Msg: "there is no such call; see " + Prefix + "/openapi.json"})
}

// newIn returns what a call takes, with nothing filled in.
func (c *Call) newIn() any { return reflect.New(c.In).Interface() }

// read reads what a call is given.
func (c *Call) read(w http.ResponseWriter, r *http.Request) (any, error) {
	in := c.newIn()
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, Invalid("the query cannot be read")
	}
	if c.Method != http.MethodPost {
		return in, fill(in, values)
	}
	if len(values) > 0 {
		return nil, Invalid("parameters go into the body, as JSON")
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "" && kind != "application/json" {
		return nil, &Error{http.StatusUnsupportedMediaType, "the body must be application/json"}
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, cmp.Or(c.most, maxBody)))
	d.DisallowUnknownFields()
	err = d.Decode(in)
	if errors.Is(err, io.EOF) && c.In.NumField() == 0 {
		return in, nil // it has nothing to say
	}
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			return nil, Invalid("body: more than one JSON value")
		}
		return in, nil
	}
	code := http.StatusBadRequest
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		code = http.StatusRequestEntityTooLarge
	}
	return nil, &Error{code, "body: " + err.Error()}
}

// do makes a call that somebody may make, and writes the audit log.
func (q *Request) do(c *Call, in any) (any, error) {
	made := *q // q may be somebody's context still: its own must not change
	made.Context = store.WithSource(q.Context, q.From)
	out, err := c.run(&made, in)
	if err != nil {
		return nil, understood(err)
	}
	made.note(c, in, out)
	return out, nil
}

// note writes the audit log. An act that cannot be noted is done all the same: on a full disk an operator must be able
// to act.
func (q *Request) note(c *Call, in, out any) {
	if err := q.log(c, in, out); err != nil {
		q.serving.log.Error("an act is missing in the audit log", "what", c.Commands[0], "by", q.Who.Name,
			"from", q.From, "err", err)
	}
}

// streamTo makes a call that answers line by line. It ends when the client leaves or weir stops.
func (q *Request) streamTo(w http.ResponseWriter, c *Call, in any) {
	// It may take long. A read deadline would end the context, too.
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Time{})
	_ = conn.SetWriteDeadline(time.Time{})
	ctx, cancel := context.WithCancel(store.WithSource(q.Context, q.From))
	defer cancel()
	defer context.AfterFunc(q.serving.stopping, cancel)()
	made := *q
	made.Context = ctx
	begun := false
	lines := json.NewEncoder(w)
	err := c.stream(&made, in, func(v any) error {
		if !begun {
			w.Header().Set("Content-Type", "application/jsonl")
			begun = true
		}
		if err := lines.Encode(v); err != nil {
			return err
		}
		return conn.Flush()
	})
	switch {
	case err == nil:
		noted := made // which is somebody's context still
		noted.Context = context.WithoutCancel(ctx)
		noted.note(c, in, None{})
	case !begun:
		writeError(w, understood(err))
	default: // the last line says so
		_ = lines.Encode(&Error{Msg: understood(err).Error()})
	}
}

// may returns an error for somebody whose role is not enough for a call.
func (c *Call) may(who access.Identity) error {
	if who.Role.May(c.Role) {
		return nil
	}
	return &Error{http.StatusForbidden, "this needs the role " + string(c.Role) + "; " + who.Name + " has the role " +
		string(who.Role)}
}

// named returns the call of a name.
func (a *api) named(name string) *Call {
	if i := slices.IndexFunc(a.calls, func(c *Call) bool { return c.Name() == name }); i >= 0 {
		return a.calls[i]
	}
	return nil
}

// writeError answers with an error. One that is not an *Error is a failure of weir.
func writeError(w http.ResponseWriter, err error) {
	e, known := errors.AsType[*Error](err)
	if !known {
		e = &Error{http.StatusInternalServerError, err.Error()}
	}
	writeJSON(w, e.Code, e)
}

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
