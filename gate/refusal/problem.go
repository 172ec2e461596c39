package refusal

import (
	"encoding/json"
	"strconv"
)

// AppendJSON writes the document as json.Marshal would, and allocates nothing: refusals should be cheap.
func (doc *Refusal) AppendJSON(b []byte) []byte {
	if doc.begins != "" {
		b = append(b, doc.begins...)
	} else {
		b = doc.appendCommon(b)
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
