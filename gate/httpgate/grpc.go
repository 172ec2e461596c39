package httpgate

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"weir/gate/refusal"
)

// isGRPC reports whether a request is a call of gRPC, or of gRPC-Web. Such clients take every HTTP status but 200 for
// "unavailable", and many of them try again at once.
func isGRPC(r *http.Request) bool {
	kind, ok := strings.CutPrefix(r.Header.Get("Content-Type"), "application/grpc")
	return ok && (kind == "" || strings.IndexByte("+;-", kind[0]) >= 0)
}

// answerGRPC writes a refusal as gRPC has it: headers only, with the HTTP status 200.
func (x *exchange) answerGRPC(doc *refusal.Refusal) {
	h := x.w.Header()
	state := &status.Status{Code: int32(refusal.Code(doc.Status)), Message: doc.Detail}
	if after := doc.RetryAfter; after > 0 {
		wait := &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Duration(after) * time.Second)}
		if detail, err := anypb.New(wait); err == nil {
			state.Details = []*anypb.Any{detail}
		}
		h["Grpc-Retry-Pushback-Ms"] = []string{strconv.FormatInt(after*1000, 10)}
	}
	if details, err := proto.Marshal(state); err == nil {
		h["Grpc-Status-Details-Bin"] = []string{base64.RawStdEncoding.EncodeToString(details)}
	}
	h["Grpc-Status"] = []string{strconv.Itoa(int(state.Code))}
	h["Grpc-Message"] = []string{grpcMessage(doc.Detail)}
	h["Content-Type"] = []string{x.r.Header.Get("Content-Type")}
	delete(h, "Content-Length")
	x.leaveBody()
	x.WriteHeader(http.StatusOK)
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
