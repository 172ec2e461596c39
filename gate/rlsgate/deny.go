package rlsgate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	types "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"weir"
)

// A refusal is what a client is told when its request is denied: a problem (RFC 9457), in the words of weir's own gate
// for HTTP.
type refusal struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	Policy     string `json:"policy,omitempty"`
	Throttle   string `json:"throttle,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Limit      *int64 `json:"limit,omitempty"`
	Unit       string `json:"unit,omitempty"`
	Remaining  *int64 `json:"remaining,omitempty"`
	RetryAfter int64  `json:"retry_after,omitempty"`
	RequestID  string `json:"request_id,omitempty"`

	figures []weir.Figure
}

// document says what the verdict was.
func (v *visit) document(a *weir.Answer) refusal {
	doc := refusal{Status: statusOf(a), Detail: detail(a), Policy: a.Rule, Throttle: a.By, Reason: a.Reason.String(),
		RetryAfter: retryAfter(a, v.now), figures: a.Figures}
	if a.Reason != weir.NoReason {
		doc.Type = "urn:weir:" + doc.Reason
	}
	if a.Unit != "" || a.Limit > 0 { // else the rule is none that counts
		doc.Limit, doc.Unit, doc.Remaining = &a.Limit, a.Unit, &a.Remaining
	}
	return doc
}

func statusOf(a *weir.Answer) int {
	switch a.Reason {
	case weir.NoAccount:
		return http.StatusUnauthorized
	case weir.Banned, weir.Forged, weir.Replayed:
		return http.StatusForbidden
	case weir.Overload, weir.Failure:
		return http.StatusServiceUnavailable
	}
	if a.Verdict == weir.Challenge { // there is no way to pay here
		return http.StatusServiceUnavailable
	}
	return http.StatusTooManyRequests
}

// detail says in a sentence what the client ran into.
func detail(a *weir.Answer) string {
	limit := "The limit"
	if a.Limit > 0 {
		limit = fmt.Sprintf("The limit of %d %s", a.Limit, a.Unit)
		if a.Unit == "bytes" {
			limit = fmt.Sprintf("The limit of %s", weir.Size(a.Limit))
		}
		if a.Window > 0 {
			limit += " per " + period(a.Window)
		}
	}
	switch a.Reason {
	case weir.LineFull:
		return limit + " is used up, and as many requests as may wait are waiting."
	case weir.WaitTooLong:
		return limit + " is used up, and the wait would be too long."
	case weir.SharedLimit:
		return limit + " is used up. Accounts that are new to the server share it. Try again soon."
	case weir.NoAccount:
		return "The request does not say which account it belongs to."
	case weir.TooCostly:
		return "The request costs more than its limit will ever allow."
	case weir.Overload:
		return "The server has no room for the request right now."
	case weir.Failure:
		return "The server cannot tell right now whether the request may pass."
	case weir.Banned:
		return "The server does not take requests from this client."
	case weir.Unpaid, weir.NotPaying:
		return "The server is busy, and takes no more requests without a stamp."
	}
	return limit + " is used up."
}

// period says per how long, in a word where there is one.
func period(w weir.Window) string {
	if u := Unit(unitOf(w)); u.valid() && (w.Calendar() != weir.NoCalendar || u.Period() == w.Length()) {
		return u.String()
	}
	return w.String()
}

// retryAfter returns after how many seconds a denied client may come back, at least 1; 0 means that there is no use, or
// no saying.
func retryAfter(a *weir.Answer, now time.Time) int64 {
	switch a.Reason {
	case weir.NoAccount, weir.TooCostly, weir.Forged, weir.Replayed:
		return 0
	case weir.Banned:
		if a.Until.IsZero() { // for good
			return 0
		}
	case weir.OverLimit:
		if a.Limit == 0 && a.Rule != "" { // closed for good
			return 0
		}
	}
	return max(wholeSeconds(until(a, &a.Figure).Sub(now)), 1)
}

// sentence makes one of an error text.
func sentence(err error) string {
	s := err.Error()
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// rpcCodes are what Envoy's log shows for a denial.
var rpcCodes = map[int]codes.Code{
	http.StatusBadRequest:         codes.InvalidArgument,
	http.StatusUnauthorized:       codes.Unauthenticated,
	http.StatusForbidden:          codes.PermissionDenied,
	http.StatusTooManyRequests:    codes.ResourceExhausted,
	http.StatusServiceUnavailable: codes.Unavailable,
}

// deny makes Envoy answer the client with the refusal.
func (v *visit) deny(doc refusal) *auth.CheckResponse {
	if doc.Type == "" {
		doc.Type = "about:blank"
	}
	doc.Title, doc.RequestID = http.StatusText(doc.Status), v.event.ID
	body, _ := json.Marshal(&doc)
	headers := []*core.HeaderValueOption{set("content-type", "application/problem+json"),
		set("cache-control", "no-store"),
		set("x-content-type-options", "nosniff")}
	if doc.RetryAfter > 0 {
		headers = append(headers, set("retry-after", strconv.FormatInt(doc.RetryAfter, 10)))
	}
	if doc.Status == http.StatusUnauthorized {
		for _, challenge := range v.setup.accounts.Challenges() {
			headers = append(headers, also("www-authenticate", challenge))
		}
	}
	headers = appendRateLimit(headers, doc.figures, v.now)
	return &auth.CheckResponse{
		Status: &rpc.Status{Code: int32(rpcCodes[doc.Status]), Message: doc.Detail},
		HttpResponse: &auth.CheckResponse_DeniedResponse{DeniedResponse: &auth.DeniedHttpResponse{
			Status: &types.HttpStatus{Code: types.StatusCode(doc.Status)}, Headers: headers,
			Body: string(body) + "\n"}},
	}
}

// allow lets the request go on, and the client know how close it is to its limits.
func (v *visit) allow(a *weir.Answer) *auth.CheckResponse {
	return &auth.CheckResponse{
		Status: &rpc.Status{Code: int32(codes.OK)},
		HttpResponse: &auth.CheckResponse_OkResponse{OkResponse: &auth.OkHttpResponse{
			ResponseHeadersToAdd: appendRateLimit(nil, a.Figures, v.now)}},
	}
}

func set(key, value string) *core.HeaderValueOption {
	return &core.HeaderValueOption{Header: &core.HeaderValue{Key: key, Value: value},
		AppendAction: core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD}
}

func also(key, value string) *core.HeaderValueOption {
	return &core.HeaderValueOption{Header: &core.HeaderValue{Key: key, Value: value},
		AppendAction: core.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD}
}

// appendRateLimit adds RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers) for the rules that a
// request met, as weir's own gate for HTTP does. A rule that is met twice, when the event is judged and when it enters,
// is told once.
func appendRateLimit(headers []*core.HeaderValueOption, figures []weir.Figure,
	now time.Time) []*core.HeaderValueOption {
	var policy, limit []byte
	for i := range figures {
		f, name, later := &figures[i], figures[i].Rule, false
		for j := range figures {
			switch same := figures[j].Rule == f.Rule; {
			case same && j > i && figures[j].By == f.By:
				later = true
			case same && j < i && figures[j].By != f.By:
				name = f.By + "/" + f.Rule
			}
		}
		if later {
			continue
		}
		if len(policy) > 0 {
			policy, limit = append(policy, ", "...), append(limit, ", "...)
		}
		policy = strconv.AppendInt(append(appendQuoted(policy, name), ";q="...), f.Limit, 10)
		if f.Window > 0 {
			policy = strconv.AppendInt(append(policy, ";w="...), wholeSeconds(f.Window.Length()), 10)
		}
		switch f.Unit {
		case "bytes":
			policy = append(policy, `;qu="content-bytes"`...)
		case "at once":
			policy = append(policy, `;qu="concurrent-requests"`...)
		}
		limit = strconv.AppendInt(append(appendQuoted(limit, name), ";r="...), f.Remaining, 10)
		if !f.Reset.IsZero() {
			limit = strconv.AppendInt(append(limit, ";t="...), wholeSeconds(f.Reset.Sub(now)), 10)
		}
	}
	if len(policy) == 0 {
		return headers
	}
	return append(headers, also("ratelimit-policy", string(policy)), also("ratelimit", string(limit)))
}

// appendQuoted writes a string of a structured field (RFC 9651, 3.3.3): quoted, ASCII only.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c >= 0x7f:
			b = append(b, '?')
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
