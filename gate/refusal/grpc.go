package refusal

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// IsGRPC reports whether a request with such a Content-Type is a call of gRPC, or of gRPC-Web. Such clients take every
// HTTP status but 200 for "unavailable", and many of them try again at once.
func IsGRPC(kind string) bool {
	kind, ok := strings.CutPrefix(kind, "application/grpc")
	return ok && (kind == "" || strings.IndexByte("+;-", kind[0]) >= 0)
}

// GRPCStatus is the refusal as gRPC has it. Its details say when to come back, where that is known.
func (doc *Refusal) GRPCStatus() *status.Status {
	state := &status.Status{Code: int32(Code(doc.Status)), Message: doc.Detail}
	if doc.RetryAfter > 0 {
		wait := &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Duration(doc.RetryAfter) * time.Second)}
		if detail, err := anypb.New(wait); err == nil {
			state.Details = []*anypb.Any{detail}
		}
	}
	return state
}

// Pushback is the value of grpc-retry-pushback-ms, by which clients that retry wait as long; empty where that is not
// known.
func (doc *Refusal) Pushback() string {
	if doc.RetryAfter <= 0 {
		return ""
	}
	return strconv.FormatInt(doc.RetryAfter*1000, 10)
}

// HeadGRPC sets the headers of a refusal for a call of gRPC with such a Content-Type: there are no others, the HTTP
// status is 200, and there is no body.
func (doc *Refusal) HeadGRPC(h Header, kind string) {
	state := doc.GRPCStatus()
	if pushback := doc.Pushback(); pushback != "" {
		h.Set("Grpc-Retry-Pushback-Ms", pushback)
	}
	if details, err := proto.Marshal(state); err == nil {
		h.Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(details))
	}
	h.Set("Grpc-Status", strconv.Itoa(int(state.Code)))
	h.Set("Grpc-Message", grpcMessage(doc.Detail))
	h.Set("Content-Type", kind)
	h.Del("Content-Length")
}

// grpcMessage escapes what a message of gRPC may not contain.
func grpcMessage(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
