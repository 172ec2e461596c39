package refusal

import (
	"encoding/json"
	"testing"
)

func TestProblemIsWhatJSONSays(t *testing.T) {
	n, zero := int64(-5), int64(0)
	for _, doc := range []Refusal{
		{},
		{Type: "about:blank", Title: "Bad Request", Status: 400, Detail: "The request is malformed.", RequestID: "abc"},
		{Type: "urn:weir:x", Title: "T", Status: 429, Detail: `odd "<&>" ` + "\x00\xff ü", Policy: "per-second",
			Throttle: "plans", Reason: "over-limit",
			Limit: &n, Unit: "requests", Remaining: &zero, RetryAfter: 7, RequestID: "\\"},
	} {
		want, err := json.Marshal(&doc)
		if got := doc.AppendJSON(nil); err != nil || string(got) != string(want) {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	}
}
