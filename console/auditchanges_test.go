package console

import (
	"fmt"
	"testing"

	"weir/store"
)

// TestAuditChanges: what an act changed is shown in words, and what it left alone is not.
func TestAuditChanges(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{`{"limit":2,"period":"1h"}`, `{"limit":3,"period":"1h"}`, "[{limit 2 3}]"},
		{``, `{"name":"ann","role":"act","disabled":false}`, "[{disabled  no} {name  ann} {role  act}]"},
		{`{"limit":5}`, ``, "[{limit 5 }]"},
		{`{"a_b":{"c":[1,"x",{"e_f":true}]}}`, `{"a_b":{"c":[]}}`, "[{a b c 1, x, e f yes }]"},
		{`"words"`, `12345678901234567890`, "[{value words 12345678901234567890}]"},
		{`{"limit":2}`, `{"limit":2}`, "[{limit 2 2}]"},
		{`no JSON <b>`, `{}`, "[{value no JSON <b> }]"},
		{``, ``, "[]"},
		{`null`, `true`, "[{value  yes}]"},
	} {
		if got := fmt.Sprint(auditChanges(store.Detail(c.before), store.Detail(c.after))); got != c.want {
			t.Errorf("%s, %s: %s, want %s", c.before, c.after, got, c.want)
		}
	}
}

// TestAuditText: an order is shown in words, in the order in which it was written.
func TestAuditText(t *testing.T) {
	for text, want := range map[string]string{
		`{"who":"198.51.100.0/24","for":"2h","reason":"scraping"}`: "who 198.51.100.0/24, for 2h, reason scraping",
		`{"messages":["A","B"],"dry_run":true,"n":3}`:              "messages A, B, dry run yes, n 3",
		`{}`:          "",
		`{"a":1} and`: `{"a":1} and`,
		"plain words": "plain words",
		"":            "",
		`{broken`:     `{broken`,
	} {
		if got := auditText(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// TestCountOf: one of many is one.
func TestCountOf(t *testing.T) {
	for n, want := range map[string]string{"0": "0 events", "1": "1 event", "2": "2 events", "11": "11 events"} {
		if got := countOf(n, "events"); got != want {
			t.Errorf("%s: %s", n, got)
		}
	}
}
