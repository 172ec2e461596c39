package rlsgate

import (
	"net/http"
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	types "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"weir"
	"weir/gate/refusal"
)

// deny makes Envoy answer the client with the refusal.
func (v *visit) deny(doc refusal.Refusal, figures []weir.Figure) *auth.CheckResponse {
	doc.RequestID = v.event.ID
	headers := []*core.HeaderValueOption{set("content-type", "application/problem+json"),
		set("cache-control", "no-store"), set("x-content-type-options", "nosniff")}
	if doc.RetryAfter > 0 {
		headers = append(headers, set("retry-after", strconv.FormatInt(doc.RetryAfter, 10)))
	}
	if doc.Status == http.StatusUnauthorized {
		for _, challenge := range v.setup.accounts.Challenges() {
			headers = append(headers, also("www-authenticate", challenge))
		}
	}
	headers = v.appendRateLimit(headers, figures)
	return &auth.CheckResponse{
		Status: &rpc.Status{Code: int32(refusal.Code(doc.Status)), Message: doc.Detail},
		HttpResponse: &auth.CheckResponse_DeniedResponse{DeniedResponse: &auth.DeniedHttpResponse{
			Status: &types.HttpStatus{Code: types.StatusCode(doc.Status)}, Headers: headers,
			Body: string(append(doc.AppendJSON(nil), '\n'))}},
	}
}

// allow lets the request go on, and the client know how close it is to its limits.
func (v *visit) allow(a *weir.Answer) *auth.CheckResponse {
	return &auth.CheckResponse{
		Status: &rpc.Status{Code: int32(codes.OK)},
		HttpResponse: &auth.CheckResponse_OkResponse{OkResponse: &auth.OkHttpResponse{
			ResponseHeadersToAdd: v.appendRateLimit(nil, a.Figures)}},
	}
}

// set replaces a header, and also adds one.
func set(key, value string) *core.HeaderValueOption {
	h := also(key, value)
	h.AppendAction = core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
	return h
}

func also(key, value string) *core.HeaderValueOption {
	return &core.HeaderValueOption{Header: &core.HeaderValue{Key: key, Value: value},
		AppendAction: core.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD}
}

// appendRateLimit adds RateLimit-Policy and RateLimit for the rules that a request met.
func (v *visit) appendRateLimit(headers []*core.HeaderValueOption, figures []weir.Figure) []*core.HeaderValueOption {
	policy, limit := refusal.Fields(figures, v.now)
	if policy == "" {
		return headers
	}
	return append(headers, also("ratelimit-policy", policy), also("ratelimit", limit))
}
