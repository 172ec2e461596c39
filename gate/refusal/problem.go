package refusal

import (
	"encoding/json"
	"strconv"
)

// AppendJSON writes the document as json.Marshal would, and allocates nothing: refusals should be cheap.
func (doc *Refusal) AppendJSON(b []byte) []byte {
	b = appendText(append(b, `{"type":`...), doc.Type)
	b = appendText(append(b, `,"title":`...), doc.Title)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(doc.Status), 10)
	b = appendText(append(b, `,"detail":`...), doc.Detail)
	for _, f := range [...]struct{ key, text string }{{`,"policy":`, doc.Policy}, {`,"throttle":`, doc.Throttle},
		{`,"reason":`, doc.Reason}} {
		if f.text != "" {
			b = appendText(append(b, f.key...), f.text)
		}
	}
	if doc.Limit != nil {
		b = strconv.AppendInt(append(b, `,"limit":`...), *doc.Limit, 10)
	}
	if doc.Unit != "" {
		b = appendText(append(b, `,"unit":`...), doc.Unit)
	}
	if doc.Remaining != nil {
		b = strconv.AppendInt(append(b, `,"remaining":`...), *doc.Remaining, 10)
	}
	if doc.RetryAfter != 0 {
		b = strconv.AppendInt(append(b, `,"retry_after":`...), doc.RetryAfter, 10)
	}
	if doc.RequestID != "" {
		b = appendText(append(b, `,"request_id":`...), doc.RequestID)
	}
	return append(b, '}')
}

// appendText writes a string of JSON.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, _ := json.Marshal(s)
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
