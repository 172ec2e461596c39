package apigate

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"weir"
)

// Whatever a body says, it is taken or answered with what is wrong; and what is taken is what encoding/json reads too.
func FuzzDecode(f *testing.F) {
	var doc struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Content map[string]struct {
					Examples map[string]struct{ Value json.RawMessage }
				}
			}
		}
	}
	if err := json.Unmarshal(openAPI, &doc); err != nil {
		f.Fatal(err)
	}
	for _, methods := range doc.Paths {
		for _, operation := range methods {
			for _, content := range operation.RequestBody.Content {
				for _, example := range content.Examples {
					f.Add([]byte(example.Value))
				}
			}
		}
	}
	for _, seed := range []string{``, `{}`, `[]`, `[{},{}]`, `{"route":"GET a/b"}`, `{"route":{"path":"/"},"cost":1e3}`,
		`{"account":"\ud800"}`,
		`{"account":"a","account":"b"}`, `{"recipients":["a",1]}`, `{"hold":null}`, `[[]]`, `{"x":[[[[]]]]}`,
		`{"cost":12345678901234567890}`, "{\"a\":\"\xff\"}"} {
		f.Add([]byte(seed))
	}
	const most = 4
	f.Fuzz(func(t *testing.T, body []byte) {
		items, batch, wrong := decode[question](body, most)
		if wrong != nil {
			if wrong.Status < 400 || wrong.Status > 499 || wrong.Detail == "" || !utf8.ValidString(wrong.Detail) ||
				len(wrong.Detail) > 1000 || items != nil {
				t.Fatalf("%+v with %d items", wrong, len(items))
			}
			return
		}
		if !json.Valid(body) || len(items) > most || !batch && len(items) != 1 {
			t.Fatalf("%d items taken of %q", len(items), body)
		}
		var plain []question
		if batch {
			_ = json.Unmarshal(body, &plain)
		} else {
			plain = make([]question, 1)
			_ = json.Unmarshal(body, &plain[0])
		}
		for i := range items {
			it := &items[i]
			if it.wrong != nil {
				if it.wrong.Status != 400 || it.wrong.Field == "" &&
					!strings.Contains(it.wrong.Detail, "unknown field") {
					t.Fatalf("%+v", it.wrong)
				}
				continue
			}
			if !reflect.DeepEqual(it.value, plain[i]) {
				t.Fatalf("\n got %+v\nwant %+v", it.value, plain[i])
			}
			var ev weir.Event
			var msg weir.Message
			if wrong := it.value.event(&ev, &msg, most); wrong == nil &&
				len(ev.Account)+len(ev.Kind)+len(ev.Route.Host) > 1000 {
				t.Fatalf("%+v", ev)
			}
		}
		// The others must not panic.
		_, _, _ = decode[settlement](body, most)
		_, _, _ = decode[waiting](body, most)
	})
}

// A decision that was written can be read again.
func TestDecisionIsJSON(t *testing.T) {
	d := decision{Verdict: weir.Refuse, Reason: weir.LineFull, By: "a\"b<>&", RetryAfter: 1.001}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(d); err != nil {
		t.Fatal(err)
	}
	var back decision
	dec := json.NewDecoder(&b)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&back); err != nil || !reflect.DeepEqual(d, back) {
		t.Error(back, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		t.Error(err)
	}
}
